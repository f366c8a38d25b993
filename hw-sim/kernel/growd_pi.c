// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * The header of a Raspberry Pi for a virtual machine: I2C bus 1 with an SCD30 and a BH1750, GPIO lines, two PWM
 * channels. README.md describes the parameters and the files in debugfs.
 *
 * Sources: "Interface Description Sensirion SCD30 Sensor Module" and "BH1750FVI technical note" (ROHM 11046EDT01);
 * sections are given below.
 */
#include <linux/bitops.h>
#include <linux/debugfs.h>
#include <linux/delay.h>
#include <linux/gpio/driver.h>
#include <linux/i2c.h>
#include <linux/ktime.h>
#include <linux/math64.h>
#include <linux/module.h>
#include <linux/of.h>
#include <linux/pwm.h>
#include <linux/seq_file.h>
#include <linux/spinlock.h>

#define SCD30_ADDRESS 0x61
#define BH1750_ADDRESS 0x23
#define MAXIMUM_SCD30_HZ 50000 /* "I2C frequency", 1.1 */
#define CHANGES 65536 /* one and a half minutes of three PWM channels at 120 Hz */

static int co2 = 800;
module_param(co2, int, 0644);
MODULE_PARM_DESC(co2, "CO2 in ppm");
static int temperature = 23500;
module_param(temperature, int, 0644);
MODULE_PARM_DESC(temperature, "temperature in thousandths of a degC");
static int humidity = 55250;
module_param(humidity, int, 0644);
MODULE_PARM_DESC(humidity, "relative humidity in thousandths of a percent");
static int lux = 5000;
module_param(lux, int, 0644);
MODULE_PARM_DESC(lux, "illuminance in lux");
static bool scd30 = true;
module_param(scd30, bool, 0644);
MODULE_PARM_DESC(scd30, "the SCD30 is connected");
static bool bh1750 = true;
module_param(bh1750, bool, 0644);
MODULE_PARM_DESC(bh1750, "the BH1750 is connected");
static bool hang;
module_param(hang, bool, 0644);
MODULE_PARM_DESC(hang, "each transfer on the bus fails after a second");
static uint bad_crc;
module_param(bad_crc, uint, 0644);
MODULE_PARM_DESC(bad_crc, "number of next answers of the SCD30 with a wrong CRC");
static uint bus_hz = MAXIMUM_SCD30_HZ;
module_param(bus_hz, uint, 0644);
MODULE_PARM_DESC(bus_hz, "speed of the bus; above 50000 the SCD30 swaps the bytes of every second answer");
static bool keep_levels = true;
module_param(keep_levels, bool, 0644);
MODULE_PARM_DESC(keep_levels, "a line keeps its level when its program ends; if not, it becomes an input");
static uint lines = 54;
module_param(lines, uint, 0444);
MODULE_PARM_DESC(lines, "number of GPIO lines, at most 54");
static char *label = "pinctrl-bcm2711";
module_param(label, charp, 0444);
MODULE_PARM_DESC(label, "label of the GPIO chip");

/* SCD30. Transfers come one at a time, so that the chips need no lock. */

static struct {
	u16 command, interval_s, self_calibration, reference_ppm, offset, altitude_m, pressure_hpa;
	bool measuring;
	ktime_t due;
	unsigned int answers, measurements;
} scd = { .interval_s = 2, .reference_ppm = 400 };

/* CRC-8 with polynomial 0x31 and initial value 0xFF (1.1.3). */
static u8 crc8(const u8 *data, int length)
{
	u8 crc = 0xff;
	int bit;

	while (length--) {
		crc ^= *data++;
		for (bit = 0; bit < 8; bit++)
			crc = crc & 0x80 ? crc << 1 ^ 0x31 : crc << 1;
	}
	return crc;
}

/* The bits of the IEEE 754 single precision number `thousandths` / 1000, rounded towards zero. */
static u32 float_bits(int thousandths)
{
	u64 fixed = div_u64((u64)abs(thousandths) << 32, 1000); /* 32 bits after the point */
	int top = fls64(fixed) - 1;
	u32 mantissa;

	if (!fixed)
		return 0;
	mantissa = top > 23 ? fixed >> (top - 23) : fixed << (23 - top);
	return (thousandths < 0 ? 1u << 31 : 0) | (u32)(top - 32 + 127) << 23 | (mantissa & 0x7fffff);
}

/* Words with their CRCs, cut off at `length` bytes. */
static void scd30_answer(u8 *buffer, int length, const u16 *words)
{
	bool swapped = bus_hz > MAXIMUM_SCD30_HZ && scd.answers++ % 2;
	bool wrong = bad_crc > 0;
	u8 group[3];
	int i;

	if (wrong)
		bad_crc--;
	for (i = 0; i < length; i++) {
		if (i % 3 == 0) {
			group[0] = words[i / 3] >> 8;
			group[1] = words[i / 3];
			group[2] = crc8(group, 2) ^ (wrong ? 0xff : 0);
			if (swapped)
				swap(group[0], group[1]);
		}
		buffer[i] = group[i % 3];
	}
}

static void scd30_begin(void)
{
	scd.due = ktime_add_ms(ktime_get(), 1000 * scd.interval_s);
}

/* A command word, with an argument and its CRC where the command has one (1.1.2). */
static int scd30_write(const u8 *data, int length)
{
	u16 argument;

	if (length == 0) /* a probe of the address */
		return 0;
	if (length != 2 && !(length == 5 && crc8(data + 2, 2) == data[4]))
		return -EREMOTEIO;
	scd.command = data[0] << 8 | data[1];
	if (length == 2) {
		if (scd.command == 0x0104) /* stop, 1.4.2 */
			scd.measuring = false;
		if (scd.command == 0xd304) /* soft reset, 1.4.10: a running measurement starts again */
			scd30_begin();
		return 0;
	}
	argument = data[2] << 8 | data[3];
	switch (scd.command) {
	case 0x0010: /* start, with the ambient pressure in hPa or 0, 1.4.1 */
		scd.pressure_hpa = argument;
		if (!scd.measuring)
			scd30_begin();
		scd.measuring = true;
		break;
	case 0x4600: /* 1.4.3 */
		scd.interval_s = argument;
		scd30_begin();
		break;
	case 0x5306: /* 1.4.6 */
		scd.self_calibration = argument;
		break;
	case 0x5204: /* 1.4.6 */
		scd.reference_ppm = argument;
		break;
	case 0x5403: /* in steps of 0.01 degC, 1.4.7 */
		scd.offset = argument;
		break;
	case 0x5102: /* 1.4.8 */
		scd.altitude_m = argument;
		break;
	default:
		return -EREMOTEIO;
	}
	return 0;
}

static int scd30_read(u8 *buffer, int length)
{
	int thousandths[3] = { 1000 * co2, temperature, humidity };
	u16 words[6] = { 0 };
	int i;

	switch (scd.command) {
	case 0x0010:
		words[0] = scd.pressure_hpa;
		break;
	case 0x4600:
		words[0] = scd.interval_s;
		break;
	case 0x0202: /* data ready, 1.4.4 */
		words[0] = scd.measuring && ktime_after(ktime_get(), scd.due);
		break;
	case 0x0300: /* CO2, temperature, humidity, 1.4.5 */
		for (i = 0; i < 3; i++) {
			words[2 * i] = float_bits(thousandths[i]) >> 16;
			words[2 * i + 1] = float_bits(thousandths[i]);
		}
		words[5] ^= scd.measurements++ & 1; /* noise: the same floats again would be the same measurement */
		scd30_begin();
		break;
	case 0x5306:
		words[0] = scd.self_calibration;
		break;
	case 0x5204:
		words[0] = scd.reference_ppm;
		break;
	case 0x5403:
		words[0] = scd.offset;
		break;
	case 0x5102:
		words[0] = scd.altitude_m;
		break;
	case 0xd100: /* firmware version, 1.4.9 */
		words[0] = 0x0342;
		break;
	default:
		return -EREMOTEIO;
	}
	if (length > 3 * ARRAY_SIZE(words))
		return -EREMOTEIO;
	scd30_answer(buffer, length, words);
	return 0;
}

/* BH1750 */

static struct {
	u8 measurement_time, mode;
	bool on;
	ktime_t due;
} bh = { .measurement_time = 69 };

static int bh1750_write(const u8 *data, int length)
{
	u8 opcode;

	if (length == 0)
		return 0;
	opcode = data[0];
	if (opcode == 0x00 || opcode == 0x01) {
		bh.on = opcode;
	} else if ((opcode & 0xf8) == 0x40) { /* 01000_MT[7,6,5] */
		bh.measurement_time = (bh.measurement_time & 0x1f) | (opcode & 0x07) << 5;
	} else if ((opcode & 0xe0) == 0x60) { /* 011_MT[4..0] */
		bh.measurement_time = (bh.measurement_time & 0xe0) | (opcode & 0x1f);
	} else if ((opcode & 0xcc) == 0x00 && (opcode & 0x30)) { /* continuous 0x1., once 0x2. */
		bh.on = true;
		bh.mode = opcode;
		bh.due = ktime_add_ms(ktime_get(), 120 * bh.measurement_time / 69); /* typical */
	}
	return 0;
}

/* 1.2 counts for each lux at the measurement time 69, twice as many in the modes 0x11 and 0x21. */
static int bh1750_read(u8 *buffer, int length)
{
	u64 counts = div_u64((u64)lux * 12 * bh.measurement_time * ((bh.mode & 3) == 1 ? 2 : 1), 690);

	counts = min_t(u64, counts, 0xffff);
	if (!bh.on || ktime_before(ktime_get(), bh.due))
		counts = 0;
	if (length > 0)
		buffer[0] = counts >> 8;
	if (length > 1)
		buffer[1] = counts;
	return 0;
}

/* The bus */

static int transfer_one(const struct i2c_msg *message)
{
	bool reads = message->flags & I2C_M_RD;

	if (message->addr == SCD30_ADDRESS && scd30)
		return reads ? scd30_read(message->buf, message->len) : scd30_write(message->buf, message->len);
	if (message->addr == BH1750_ADDRESS && bh1750)
		return reads ? bh1750_read(message->buf, message->len) : bh1750_write(message->buf, message->len);
	return -EREMOTEIO;
}

static int transfer(struct i2c_adapter *adapter, struct i2c_msg *messages, int number)
{
	int i, error;

	if (hang) {
		msleep(1000);
		return -ETIMEDOUT;
	}
	for (i = 0; i < number; i++) {
		/* nine clocks for each byte and for the address */
		u32 us = 9 * 1000000 / max(bus_hz, 1000u) * (messages[i].len + 1);

		usleep_range(us, us + us / 8);
		error = transfer_one(&messages[i]);
		if (error)
			return error;
	}
	return number;
}

static u32 functionality(struct i2c_adapter *adapter)
{
	return I2C_FUNC_I2C | I2C_FUNC_SMBUS_EMUL;
}

static const struct i2c_algorithm algorithm = { .master_xfer = transfer, .functionality = functionality };
static struct i2c_adapter adapter = {
	.owner = THIS_MODULE, .algo = &algorithm, .nr = 1, .name = "bcm2835 (i2c@7e804000)",
};

/* GPIO. Times are those of CLOCK_MONOTONIC. */

struct change {
	u64 time_ns;
	u8 line;
	bool level;
};

static DEFINE_SPINLOCK(gpio_lock);
static struct {
	bool is_output, level;
	u64 changes;
} pins[54];
static struct change changes[CHANGES];
static u64 changes_made, changes_cleared;

static void set_level(unsigned int line, bool level)
{
	if (pins[line].level == level)
		return;
	pins[line].level = level;
	pins[line].changes++;
	changes[changes_made++ % CHANGES] = (struct change){ ktime_get_ns(), line, level };
}

/* An input has the level of its pull resistor, which is up for GPIO 0 to 8. */
static void make_input(unsigned int line)
{
	pins[line].is_output = false;
	set_level(line, line <= 8);
}

static int gpio_get_direction(struct gpio_chip *chip, unsigned int line)
{
	return pins[line].is_output ? GPIO_LINE_DIRECTION_OUT : GPIO_LINE_DIRECTION_IN;
}

static int gpio_input(struct gpio_chip *chip, unsigned int line)
{
	unsigned long flags;

	spin_lock_irqsave(&gpio_lock, flags);
	make_input(line);
	spin_unlock_irqrestore(&gpio_lock, flags);
	return 0;
}

static int gpio_output(struct gpio_chip *chip, unsigned int line, int level)
{
	unsigned long flags;

	spin_lock_irqsave(&gpio_lock, flags);
	pins[line].is_output = true;
	set_level(line, level);
	spin_unlock_irqrestore(&gpio_lock, flags);
	return 0;
}

static void gpio_set(struct gpio_chip *chip, unsigned int line, int level)
{
	unsigned long flags;

	spin_lock_irqsave(&gpio_lock, flags);
	set_level(line, level);
	spin_unlock_irqrestore(&gpio_lock, flags);
}

static int gpio_get(struct gpio_chip *chip, unsigned int line)
{
	return pins[line].level;
}

static void gpio_free_line(struct gpio_chip *chip, unsigned int line)
{
	if (!keep_levels)
		gpio_input(chip, line);
}

static struct gpio_chip gpio = {
	.owner = THIS_MODULE, .base = -1, .get_direction = gpio_get_direction, .direction_input = gpio_input,
	.direction_output = gpio_output, .get = gpio_get, .set = gpio_set, .free = gpio_free_line,
};

/* PWM: accepts any state; the kernel shows it in /sys/kernel/debug/pwm. */

static int pwm_accept(struct pwm_chip *chip, struct pwm_device *pwm, const struct pwm_state *state)
{
	return 0;
}

static const struct pwm_ops pwm_operations = { .apply = pwm_accept };
static struct pwm_chip *pwm;

/* /sys/kernel/debug/growd_pi */

static int lines_show(struct seq_file *file, void *unused)
{
	unsigned int i;

	for (i = 0; i < lines; i++)
		seq_printf(file, "%u %s %d %llu\n", i, pins[i].is_output ? "out" : "in", pins[i].level,
			   pins[i].changes);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(lines);

static int sensors_show(struct seq_file *file, void *unused)
{
	seq_printf(file, "scd30 measuring %d interval_s %u self_calibration %u offset %u altitude_m %u pressure_hpa %u measurements %u\n",
		   scd.measuring, scd.interval_s, scd.self_calibration, scd.offset, scd.altitude_m, scd.pressure_hpa,
		   scd.measurements);
	seq_printf(file, "bh1750 on %d measurement_time %u mode %u\n", bh.on, bh.measurement_time, bh.mode);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(sensors);

static int changes_show(struct seq_file *file, void *unused)
{
	u64 i = changes_made > CHANGES ? changes_made - CHANGES : 0;

	for (i = max(i, changes_cleared); i < changes_made; i++) {
		struct change *change = &changes[i % CHANGES];

		seq_printf(file, "%llu %u %d\n", change->time_ns, change->line, change->level);
	}
	return 0;
}

static int changes_open(struct inode *inode, struct file *file)
{
	return single_open(file, changes_show, NULL);
}

/* Any write clears the list. */
static ssize_t changes_write(struct file *file, const char __user *data, size_t length, loff_t *position)
{
	changes_cleared = changes_made;
	return length;
}

static const struct file_operations changes_fops = {
	.owner = THIS_MODULE, .open = changes_open, .read = seq_read, .write = changes_write, .llseek = seq_lseek,
	.release = single_release,
};

static struct device *parent;
static struct dentry *folder;

static int add_pwm(void)
{
	int error;

	pwm = pwmchip_alloc(parent, 2, 0);
	if (IS_ERR(pwm))
		return PTR_ERR(pwm);
	pwm->ops = &pwm_operations;
	error = pwmchip_add(pwm);
	if (error)
		pwmchip_put(pwm);
	return error;
}

/* The node of the device tree, if there is one, from which programs read the speed of the bus. */
static void use_device_tree(void)
{
	struct device_node *node = of_find_node_by_path("i2c1");

	of_property_read_u32(node, "clock-frequency", &bus_hz);
	adapter.dev.of_node = node;
}

static int __init growd_pi_init(void)
{
	unsigned int i;
	int error;

	lines = min_t(uint, lines, ARRAY_SIZE(pins));
	for (i = 0; i < lines; i++)
		pins[i].level = i <= 8;
	parent = root_device_register("growd_pi");
	if (IS_ERR(parent))
		return PTR_ERR(parent);
	use_device_tree();
	adapter.dev.parent = gpio.parent = parent;
	gpio.label = label;
	gpio.ngpio = lines;
	error = i2c_add_numbered_adapter(&adapter);
	if (error)
		goto no_bus;
	error = gpiochip_add_data(&gpio, NULL);
	if (error)
		goto no_gpio;
	error = add_pwm();
	if (error)
		goto no_pwm;
	folder = debugfs_create_dir("growd_pi", NULL);
	debugfs_create_file("lines", 0444, folder, NULL, &lines_fops);
	debugfs_create_file("sensors", 0444, folder, NULL, &sensors_fops);
	debugfs_create_file("changes", 0644, folder, NULL, &changes_fops);
	return 0;

no_pwm:
	gpiochip_remove(&gpio);
no_gpio:
	i2c_del_adapter(&adapter);
no_bus:
	of_node_put(adapter.dev.of_node);
	root_device_unregister(parent);
	return error;
}

static void __exit growd_pi_exit(void)
{
	debugfs_remove(folder);
	pwmchip_remove(pwm);
	pwmchip_put(pwm);
	gpiochip_remove(&gpio);
	i2c_del_adapter(&adapter);
	of_node_put(adapter.dev.of_node);
	root_device_unregister(parent);
}

module_init(growd_pi_init);
module_exit(growd_pi_exit);
MODULE_DESCRIPTION("The header of a Raspberry Pi with sensors, for virtual machines");
MODULE_LICENSE("Dual MIT/GPL");
