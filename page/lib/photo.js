/** Photos that are small enough to be sent from a phone. */

const LONGEST_PX = 1_600;
const QUALITY = 0.8;

/** A photo as a JPEG of at most 1600 px without EXIF; the file itself if the browser cannot read it. */
export async function reduced(file) {
  try {
    const picture = await createImageBitmap(file, { imageOrientation: "from-image" });
    const scale = Math.min(1, LONGEST_PX / Math.max(picture.width, picture.height));
    const [width, height] = [picture.width, picture.height].map((size) => Math.max(1, Math.round(size * scale)));
    const canvas = Object.assign(document.createElement("canvas"), { width, height });
    canvas.getContext("2d").drawImage(picture, 0, 0, width, height);
    picture.close();
    return (await new Promise((done) => canvas.toBlob(done, "image/jpeg", QUALITY))) ?? file;
  } catch {
    return file;
  }
}
