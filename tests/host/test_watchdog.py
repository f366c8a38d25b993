import asyncio
import re
import signal
import sys
from pathlib import Path

import pytest

from growd.bus import Bus
from growd.config import ChannelOptions, Config, Light, Output, Sensor
from growd.control.combining import Combiner
from growd.control.filters import Filter
from growd.control.sampling import Sampler
from growd.control.topics import declare_environment
from growd.host.systemd import ServiceManager
from growd.runtime.liveness import LOOP_S, STORE_S, Liveness
from growd.runtime.supervisor import Supervisor
from growd.runtime.worker import Worker
from growd.store.points import PointMaker
from growd.store.recorder import Recorder
from support.clock import ManualClock, Time
from support.freezing import LOOPS
from support.outbox import opened_at
from support.program import PATIENCE_S, Program, home_on, processes_that_name
from support.recipes import Chamber
from support.rig import rigged
from support.running import running
from support.service_manager import Notified, managed

FREEZING = str(Path(__file__).parents[1] / "support" / "freezing.py")
WATCHDOG_S = 1.0
ENV = "environment_1"
AIR = Sensor(name="air", kind="scd30")
LAMP = Light(channel=(ChannelOptions(name="red", pin=4),))
VALVE = Output(name="valve", pin=21, variable="air_carbon_dioxide_valve_on")

pytestmark = pytest.mark.timeout(240)


# what counts as stuck


def test_a_loop_is_stuck_after_its_time_limit_which_starts_with_new_work():
    time, work = Time(), ["a point"]
    liveness = Liveness(monotonic=time)
    with liveness.heartbeat("sampler", 10, is_idle=lambda: not work) as sampler:
        time.now = 10
        assert liveness.stuck() == []
        time.now = 11
        assert [str(each) for each in liveness.stuck()] == ["sampler has not advanced for more than 10 s"]
        sampler.beat()
        assert liveness.stuck() == []
        work.clear()
        time.now = 1_000
        assert liveness.stuck() == []
        work.append("another")
        time.now = 1_010
        assert liveness.stuck() == []
        time.now = 1_011
        assert len(liveness.stuck()) == 1
    assert liveness.stuck() == []  # it has ended


def test_the_time_limit_grows_on_a_slow_clock_and_stays_on_a_fast_one():
    time = Time()
    slow, fast = Liveness(0.1, time), Liveness(100, time)
    with slow.heartbeat("one", 10), fast.heartbeat("two", 10):
        time.now = 10
        assert fast.stuck() == []
        time.now = 100
        assert slow.stuck() == []
        assert len(fast.stuck()) == 1


class Absent:
    def read(self):
        raise OSError(121, "Remote I/O error")


async def test_an_absent_sensor_and_a_clock_step_make_no_loop_stuck():
    clock = ManualClock()
    bus = Bus(clock, liveness=Liveness(monotonic=clock.monotonic))
    declare_environment(bus, ENV, ["air_carbon_dioxide"])
    worker = Worker("i2c-1")
    clock.watch(worker)
    sampler = Sampler(
        bus,
        ENV,
        "scd30",
        read=Absent().read,
        variables=["air_carbon_dioxide"],
        worker=worker,
        interval_s=3_600,
    )
    task = asyncio.create_task(sampler.run(), name="sampler")
    for minute in range(120):
        await clock.advance(LOOP_S / 2)
        clock._offset += (-1) ** minute * 86_400
        assert bus.liveness.stuck() == []
    assert bus.liveness._heartbeats
    task.cancel()
    await asyncio.wait([task])
    await worker.close()


@pytest.mark.parametrize("is_busy", [False, True])
async def test_idle_and_busy_loops_are_not_stuck(tmp_path, is_busy):
    clock, time = ManualClock(), Time()
    bus = Bus(clock, liveness=Liveness(monotonic=time))
    declare_environment(bus, ENV, ["air_carbon_dioxide"])
    combiner = Combiner(bus, ENV, "air_carbon_dioxide", ["a", "b"], method="first", stale_after_s=30.0)
    smoothing = Filter(bus, ENV, "air_carbon_dioxide")
    stages = ("raw/air_carbon_dioxide/a", "raw/air_carbon_dioxide", "measured/air_carbon_dioxide")
    node = bus.node("outside")
    outside = [node.publisher(f"{ENV}/{stage}") for stage in stages] if is_busy else []
    async with opened_at(tmp_path / "growd.sqlite3", clock, liveness=bus.liveness) as outbox:
        recorder = Recorder(bus, outbox, PointMaker("0123456789ab"), [ENV])
        async with running(clock, combiner, smoothing, recorder, outbox):
            names = {each.name for each in bus.liveness._heartbeats}
            assert {combiner.node.name, smoothing.node.name, recorder.node.name, "outbox"} < names
            for _ in range(20):  # ten minutes
                time.now += LOOP_S / 2
                await clock.advance(LOOP_S / 2)
                await outbox.flush()  # the disk works in real time
                for stage in outside:
                    stage.publish(400.0)  # this message waits during the check
                assert bus.liveness.stuck() == []


async def test_no_loop_of_a_working_chamber_is_stuck():
    async with rigged(Config(sensor=(AIR,), light=LAMP, output=(VALVE,))) as rig:
        await rig.clock.settle()
        loops = {each.name for each in rig.bus.liveness._heartbeats}
        kinds = ("/samplers/", "/filters/", "/controllers/", "/actuators/", "/interlocks")
        assert not [kind for kind in kinds if not any(kind in name for name in loops)]
        for _ in range(20):  # ten minutes
            await rig.clock.advance(LOOP_S / 2)
            assert rig.bus.liveness.stuck() == []
        assert {each.name for each in rig.bus.liveness._heartbeats} == loops


@pytest.mark.parametrize("is_broken", [False, True])
async def test_a_recipe_runner_is_not_stuck_while_it_runs_or_retries_its_journal(is_broken):
    chamber = Chamber()
    chamber.journal.broken = is_broken
    async with chamber.on():
        answer = await chamber.start()
        assert answer["success"] is not is_broken
        for _ in range(20):
            await chamber.clock.advance(STORE_S / 2)
            assert chamber.bus.liveness.stuck() == []
        assert chamber.bus.liveness._heartbeats


async def test_an_outbox_that_does_not_save_its_points_is_stuck(tmp_path):
    clock = ManualClock()
    time = Time()
    liveness = Liveness(monotonic=time)
    async with (
        opened_at(tmp_path / "growd.sqlite3", clock, liveness=liveness) as outbox,
        running(clock, outbox),
    ):
        outbox.add(PointMaker("0123456789ab").make(ENV, "air_humidity", 50.0, 1e9, is_desired=False))
        await clock.settle()
        time.now = 2 * STORE_S  # the clock of the outbox stands still
        assert [each.name for each in liveness.stuck()] == ["outbox"]


async def test_a_component_that_waits_for_its_restart_is_not_stuck():
    clock = ManualClock()
    liveness = Liveness(monotonic=clock.monotonic)
    starts = []

    async def part():
        with liveness.heartbeat("part", 5):
            starts.append(clock.monotonic())
            raise OSError("the disk is full")

    async with Supervisor(clock, liveness) as parts:
        parts.start("part", part)
        for _ in range(300):
            await clock.advance(1)
            assert liveness.stuck() == []
    assert starts[-1] - starts[-2] == 60


# notifications


@pytest.fixture
def notified(tmp_path, request):
    heard = Notified(str(tmp_path / "notify") if request.param == "path" else "")
    yield heard
    heard.close()


@pytest.mark.parametrize("notified", ["path", "abstract"], indirect=True)
async def test_notifications_follow_the_sd_notify_protocol(notified):
    environment = {"NOTIFY_SOCKET": notified.address, "WATCHDOG_USEC": "2000000", "OTHER": "1"}
    manager = ServiceManager.from_environment(environment)
    assert environment == {"OTHER": "1"}  # what growd starts is not meant
    assert manager.watchdog_s == 2.0
    manager.send_status("one\nof 2")
    manager.send_status("one of 2")
    manager.reloading()
    manager.ready()
    manager.stopping()
    said = [await notified.next() for _ in range(4)]
    assert said[0] == "STATUS=one of 2"  # once, and in one line
    assert said[1].startswith("RELOADING=1\nMONOTONIC_USEC=")
    assert said[2:] == ["READY=1", "STOPPING=1"]


@pytest.mark.parametrize(
    ("environment", "watchdog_s"),
    [
        ({}, None),
        ({"NOTIFY_SOCKET": "@x"}, None),
        ({"NOTIFY_SOCKET": "@x", "WATCHDOG_USEC": "1000000", "WATCHDOG_PID": "1"}, None),
        ({"NOTIFY_SOCKET": "@x", "WATCHDOG_USEC": "no number"}, None),
        ({"WATCHDOG_USEC": "1000000"}, None),
        ({"NOTIFY_SOCKET": "vsock:2:1234", "WATCHDOG_USEC": "1000000"}, None),
        ({"NOTIFY_SOCKET": "@x", "WATCHDOG_USEC": "1000000"}, 1.0),
    ],
)
def test_the_watchdog_is_fed_if_it_watches_this_process(environment, watchdog_s):
    assert ServiceManager.from_environment(dict(environment)).watchdog_s == watchdog_s


@pytest.mark.parametrize(("watchdog_s", "starting_s", "ready_s"), [(None, 5, 15), (60, 5, 15), (12, 2, 6)])
def test_the_status_line_comes_each_15_s_more_often_during_the_start_and_within_the_watchdogs_time(
    watchdog_s, starting_s, ready_s
):
    manager = ServiceManager("@x", watchdog_s)
    assert manager.period_s == starting_s
    manager.ready()
    assert manager.period_s == ready_s


def test_a_full_notification_socket_does_not_block():
    notified = Notified()
    manager = ServiceManager(notified.address)
    for number in range(1_000):  # more than the socket has room for
        manager.send_status(f"{number}")
    notified.close()
    manager.ready()


async def test_a_stuck_loop_and_its_recovery_are_logged_once_and_in_the_status_line(caplog):
    time, notified = Time(), Notified()
    liveness = Liveness(monotonic=time)
    manager = ServiceManager(notified.address, watchdog_s=0.01)
    manager.status_line = lambda: "well"
    with liveness.heartbeat("shipper", 10) as heart:
        async with manager.attended(liveness):
            await notified.until(lambda said: said == "STATUS=well")
            time.now = 11
            await notified.until(lambda said: said.startswith("STATUS=stuck: shipper"))
            notified.forget()
            notified.heard.clear()
            for _ in range(3):
                await notified.until(lambda said: said.startswith("EXTEND"))
            assert "WATCHDOG=1" not in notified.heard
            heart.beat()
            await notified.until(lambda said: said == "WATCHDOG=1")
    notified.close()
    assert [record.message for record in caplog.records] == [
        "shipper has not advanced for more than 10 s; growd no longer feeds the watchdog",
        "shipper advances again",
    ]


async def test_a_long_start_extends_the_start_timeout_and_no_error_in_the_status_line_starves(caplog):
    notified = Notified()
    manager = ServiceManager(notified.address, watchdog_s=0.01)
    manager.status_line = lambda: str(1 / 0)
    async with manager.attended(Liveness()):
        assert await notified.until(lambda said: said.startswith("EXTEND")) == "EXTEND_TIMEOUT_USEC=60000000"
        manager.ready()
        await notified.until(lambda said: said == "READY=1")
        notified.heard.clear()
        for _ in range(3):
            await notified.until(lambda said: said == "WATCHDOG=1")
    assert not [said for said in notified.heard if said.startswith("EXTEND")]
    notified.close()
    assert len(caplog.records) == 1


# the program under a manager that kills and restarts it


def growd(data, *options):
    """With points to save and ship all the time, and without set points that survive a restart."""
    often = [
        f"--set=store.{each}" for each in ("minimum_interval_s=0", "maximum_interval_s=2", "max_age_s=1")
    ]
    dark = ("--set=light.enabled=true", "--set=environment.keep_set_points=false")
    run = ("run", "--port", "0", "--data", str(data), "--speed", "10", *often, *dark)
    return (sys.executable, FREEZING, *run, *options)


async def program_of(manager):
    line = await manager.until_printed(r"page +http")
    return Program(manager.process, line.split()[1], "")


async def until_lit(program, *, lit):
    """Whether the lamp has its level, according to its actuator."""
    if lit:
        await program.ask("POST", f"topic/{ENV}/desired/light_illuminance", [8000])
    await program.heard(f"{ENV}/light_channels", lambda message: any(message["value"].values()) == lit)


@pytest.mark.watchdog
async def test_each_frozen_loop_starves_the_watchdog(tmp_path, database_server):
    async with (
        home_on(database_server, shared=True) as home,
        managed(*growd(tmp_path, *home.arguments), watchdog_s=WATCHDOG_S) as manager,
    ):
        told = manager.notified
        well = await told.until(lambda said: "devices well" in said)
        assert well.endswith("waiting")
        await told.until(lambda said: said == "WATCHDOG=1")
        for _, _, hearts in LOOPS.values():
            manager.process.send_signal(signal.SIGUSR1)
            only = f"STATUS=stuck: ([^;]*{hearts}[^;]* has not advanced for [^;]*(; |$))+"
            await told.until(lambda said, only=only: re.fullmatch(only, said))
            await manager.until_starved()
            await manager.until_printed(f"ERROR.*{hearts}.*growd no longer feeds the watchdog")
        manager.process.send_signal(signal.SIGUSR1)
        await told.until(lambda said: said == "WATCHDOG=1")
        for _, _, hearts in LOOPS.values():
            await manager.until_printed(f"{hearts}.*advances again")
        told.forget()  # unread notifications leave no room for the last
        stopping = asyncio.create_task(told.until(lambda said: said == "STOPPING=1"), name="stopping")
        assert await manager.stop() == 0
        await stopping


@pytest.mark.long
async def test_a_hung_growd_is_killed_with_its_database_and_restarted_with_safe_outputs(tmp_path):
    async with managed(*growd(tmp_path), watchdog_s=WATCHDOG_S) as manager:
        await until_lit(await program_of(manager), lit=True)
        manager.process.send_signal(signal.SIGUSR2)
        assert await manager.until_killed() == -signal.SIGABRT

        await manager.start()  # on the same data, with a database of its own
        program = await program_of(manager)
        await until_lit(program, lit=False)
        await program.heard(f"{ENV}/measured/air_carbon_dioxide", lambda message: message["quality"] == "ok")
        await manager.until_printed("the embedded database listens")
        assert processes_that_name(tmp_path / "couchdb")
        manager.process.send_signal(signal.SIGSTOP)
        assert await manager.until_killed() == -signal.SIGABRT
        async with asyncio.timeout(PATIENCE_S):
            while processes_that_name(tmp_path / "couchdb"):  # noqa: ASYNC110  another process, without a parent
                await asyncio.sleep(0.05)
