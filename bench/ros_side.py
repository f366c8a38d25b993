"""One side of a topic between two processes under rospy, for `bus`. Runs with the Python that has rospy.

`ros_side.py read` prints `ready` and, in the end, how many messages a second arrived. `ros_side.py
publish 3 100` publishes for 3 s through a queue of 100 messages, then an end mark; 0 is no queue: a
message is on its way before the next one is made.
"""

from __future__ import annotations

import sys
import threading
import time

import rospy
from std_msgs.msg import Float64

TOPIC = "measured"
END = -1.0


def read() -> None:
    arrivals: list[float] = []
    ended = threading.Event()

    def take(message: Float64) -> None:
        if message.data == END:
            ended.set()
        else:
            arrivals.append(time.perf_counter())

    rospy.init_node("reader", disable_signals=True)
    rospy.Subscriber(TOPIC, Float64, take)
    print("ready", flush=True)
    ended.wait()
    print((len(arrivals) - 1) / (arrivals[-1] - arrivals[0]), flush=True)


def publish(seconds: float, queue: int) -> None:
    rospy.init_node("sensor", disable_signals=True)
    publisher = rospy.Publisher(TOPIC, Float64, queue_size=queue or None)
    while publisher.get_num_connections() == 0:
        time.sleep(0.01)
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        publisher.publish(410.25)
    publisher.publish(END)
    threading.Event().wait()  # for whoever started it: a queue may not be empty yet


if __name__ == "__main__":
    if sys.argv[1] == "read":
        read()
    else:
        publish(float(sys.argv[2]), int(sys.argv[3]))
