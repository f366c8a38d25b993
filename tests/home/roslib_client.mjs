// A client made with roslib: node roslib_client.mjs MODULE URL. Prints one JSON document of what it saw.
const { Param, Ros, Service, Topic } = await import(process.argv[2]);
const url = process.argv[3];
const seen = { statuses: [] };
const ros = new Ros({ url });
await new Promise((resolve, reject) => { ros.on("connection", resolve); ros.on("error", reject); });
ros.transport.on("message", (message) => { if (message.op === "status") seen.statuses.push(message); });

const promised = (call) => new Promise((resolve) => call(resolve, (refusal) => resolve({ refusal })));
const type = "std_msgs/Float64";
const co2 = new Topic({ ros, name: "/environment_1/measured/air_carbon_dioxide", messageType: type });
const light = new Topic({ ros, name: "/environment_1/desired/light_illuminance", messageType: type });

seen.first = await new Promise((resolve) => co2.subscribe(resolve));
co2.unsubscribe();
const [follower, throttled] = [light, new Topic({ ros, name: light.name, messageType: type, throttle_rate: 50 })];
const echo = new Promise((resolve) => follower.subscribe(resolve));
throttled.subscribe(() => {});
light.publish({ data: 8000 });
seen.echo = await echo;
co2.publish({ data: 1 });

const start = new Service({ ros, name: "/environment_1/start_recipe", serviceType: "growd/StartRecipe" });
seen.started = await promised((done, failed) => start.callService({ recipe_id: "demo_day" }, done, failed));
seen.refused = await promised((done, failed) => start.callService({ recipe_id: "unknown" }, done, failed));

const interval = new Param({ ros, name: "/sensors/scd30/interval" });
seen.before = await promised((done, failed) => interval.get(done, failed));
seen.set = await promised((done, failed) => interval.set(7.5, done, failed));
seen.after = await promised((done, failed) => interval.get(done, failed));
seen.deleted = await promised((done, failed) => interval.delete(done, failed));
seen.missing = await promised((done, failed) => new Param({ ros, name: "nothing" }).get(done, failed));

seen.topics = await promised((done, failed) => ros.getTopics(done, failed));
seen.topic_type = await promised((done, failed) => ros.getTopicType(co2.name, done, failed));
seen.services = await promised((done, failed) => ros.getServices(done, failed));
seen.service_type = await promised((done, failed) => ros.getServiceType(start.name, done, failed));
seen.nodes = await promised((done, failed) => ros.getNodes(done, failed));
seen.for_type = await promised((done, failed) => ros.getTopicsForType(type, done, failed));
seen.publishers = await promised((done, failed) => co2.getPublishers(done, failed));
seen.message = await promised((done, failed) => ros.getMessageDetails(type, done, failed));
seen.typedef = ros.decodeTypeDefs(seen.message);
seen.raw = await promised((done, failed) => ros.getTopicsAndRawTypes(done, failed));
seen.services_for_type = await promised((done, failed) => ros.getServicesForType(start.serviceType, done, failed));
seen.request = await promised((done, failed) => ros.getServiceRequestDetails(start.serviceType, done, failed));
seen.response = await promised((done, failed) => ros.getServiceResponseDetails(start.serviceType, done, failed));
seen.node = await promised((done, failed) => ros.getNodeDetails("/scd30", done, failed));
seen.actions = await promised((done, failed) => ros.getActionServers(done, failed));
seen.unknown = await promised((done, failed) => ros.getMessageDetails("a/B", done, failed));
seen.parameters = await promised((done, failed) => ros.getParams(done, failed));

ros.close();
console.log(JSON.stringify(seen));
