"""One SparkContext, a Spark session for each statement; the only user of SparkContext (`gateway.md` §6)."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Collection, Iterator
from typing import TYPE_CHECKING, Any

from model.errors import Unavailable
from model.spans import span
from sql.spark.driver.jvm import Jvm, Scratch
from sql.spark.driver.launch import Launcher
from sql.spark.driver.probe import JobProbe
from sql.spark.driver.standby import Standby, StartedJvm
from sql.spark.driver.start_failure import length_of, why_not_started
from sql.spark.driver.watch import JvmWatch
from sql.spark.scheduling.shares import BACKGROUND, Shares
from sql.spark.scheduling.shuffles import Leftovers
from sql.spark.scheduling.tasks import begun, executors, runs_tasks
from sql.spark.scheduling.work import Work
from sql.spark.session.gone import forget_gateway, load_natives, state_of, stop_in_any_case
from sql.spark.session.lease import SparkLease
from sql.spark.session.settings import SparkSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_log = logging.getLogger(__name__)
_START_SECONDS = 120.0
_CHECK_SECONDS = 0.5
_FIRST_PAUSE = 1.0
_LONGEST_PAUSE = 60.0
_STOP_SECONDS = 30.0
"""So long a JVM has to stop its context."""
_AWAY = "Spark does not answer. It is being started anew; try again in a moment."


class SparkPool(Work):
    """Starts Spark once, hands out sessions that share neither settings nor views, and starts it again when the JVM died."""

    def __init__(self, settings: SparkSettings | None = None) -> None:
        self._settings = settings or SparkSettings()
        self._elsewhere = not self._settings.master.startswith("local[") and self._settings.master != "local"
        """Whether tasks run in other processes than the driver's."""
        super().__init__()
        self._lock = threading.Lock()
        """Guards which Spark is the present one; never held while Spark works."""
        self._starting = threading.Lock()
        self._started = threading.Event()
        self.asleep = self._settings.when_needed
        """Whether Spark starts with the first that asks for it, and none has."""
        self._starts = 0
        """How often Spark was to be started anew: what became of an earlier start tells nothing of this one."""
        self._failure: str | None = None
        self._since = time.monotonic()
        """When Spark began to start."""
        self._stopped = False
        self._stopping = threading.Event()
        self._scratch = Scratch(self._settings.directory)
        self._java: Jvm | None = None
        self._watch: JvmWatch | None = None
        """Of that JVM."""
        self._launcher = Launcher(self._settings, self._scratch.path)
        self._standby = Standby(self._launcher.launch_with_context)
        self._warm = False
        """Whether the Spark that runs had run a query before it was ours."""
        self._spared: set[str] = set()
        """Statements that waited for a core when Spark was started anew last."""
        self._interrupting = threading.Lock()
        self._leftovers = Leftovers()
        self._shares = Shares()
        self._probe = JobProbe(self._small_job, self._busy, lacking=self._lacking)

    def start_in_background(self) -> None:
        """Begin to start Spark; `session` waits for it."""
        threading.Thread(target=self._start_and_warm, args=(self._starts,), name="spark-start", daemon=True).start()

    @property
    def ready(self) -> bool:
        """Whether Spark has started."""
        return self._root is not None and self._started.is_set()

    @property
    def starting(self) -> bool:
        """Whether it starts, and nobody knows yet if it will."""
        return not (self._started.is_set() or self.asleep)

    def _wake(self) -> None:
        with self._lock:
            asleep, self.asleep = self.asleep, False
        if asleep:
            self._since = time.monotonic()
            self.start_in_background()

    def _start_and_warm(self, starts: int) -> None:
        pause = _FIRST_PAUSE
        while not self._stopped and starts == self._starts:
            said = length_of(self._settings.log)
            try:
                self._start()
                if self._root is not None:
                    if self._warm:
                        self._tell_started(starts)
                    self._small_job()
                    self._probe.renewed()
                self._keep_classes()
                return
            except Exception as problem:  # told to whoever needs Spark; the server itself lives on without it
                if starts != self._starts:  # it started, and was ended while the small job ran
                    return
                self._failure = why_not_started(problem, self._settings.log, said)
                if self._stopped:  # the server ends, and took away what Spark was to start with
                    return
                # The trace once: on a full disk it fails the same way each time.
                _log.error("Spark did not start: %s; the next attempt is in %d s", self._failure, pause, exc_info=pause == _FIRST_PAUSE)
            finally:
                self._tell_started(starts)
            if self._root is not None or self._stopping.wait(pause):
                return  # it runs and only the warming failed: a statement will tell whether it is lost
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _keep_classes(self) -> None:
        if self._settings.classes is not None and self._java is not None and not self._stopped:
            self._settings.classes.make_when_calm(self._launcher.launch_apart, self._stopping, lambda: self.ready and not self._busy())

    def _tell_started(self, starts: int) -> None:
        """Wake those who wait for this start; who waits for a later one goes on waiting."""
        with self._lock:
            if starts == self._starts:
                self._started.set()

    def _start(self) -> None:
        with self._starting:
            if self._root is not None or self._stopped:
                return
            self._launcher.set_environment()
            from pyspark import SparkConf, SparkContext
            from pyspark.sql import SparkSession

            if SparkContext._gateway is None:  # no JVM yet, and pyspark's own launch would leave it where a terminal's signals arrive
                self._scratch.sweep()
                started = self._standby.take() or StartedJvm(self._launcher.launch())
                self._java, conf = started.java, started.java.conf
                self._warm = started.context is not None
                # It may stand still while its context is made, too, and nobody else would end this wait.
                self._watch = JvmWatch(self._java, limit=self._settings.standstill, lost=self.lost, prepare=self.prepare)
                self._watch.start()
                try:
                    spark_conf = SparkConf(loadDefaults=False).setAll(list(conf.items()))
                    SparkContext(conf=spark_conf, gateway=self._java.gateway, jsc=started.context)
                except BaseException:
                    self._forget_jvm()
                    raise
            else:
                conf = self._launcher.configuration()
            builder = SparkSession.builder
            for key, value in conf.items():
                builder = builder.config(key, value)
            try:
                root = builder.getOrCreate()
                load_natives(self._gateway())  # later, the disk may be full
            except BaseException:
                self._forget_jvm()  # one whose context ended and that died since; asked again it would never answer
                raise
            self._root, self._failure = root, None

    def prepare(self) -> None:
        """The Spark that runs may have to be ended: make the next one ready; returns at once.

        Where tasks run on other machines the next one would take their cores and memory.
        """
        if self._java is not None and not self._elsewhere:
            self._standby.prepare()

    def root(self, check: Callable[[], None] = lambda: None) -> SparkSession:
        """The first session, once Spark runs; raises `Unavailable` where it does not, and what ``check`` raises meanwhile."""
        self._wake()
        until = time.monotonic() + _START_SECONDS
        while not self._started.wait(_CHECK_SECONDS):
            check()
            if time.monotonic() > until:
                raise Unavailable(f"{self._still_starting()} Try again in a moment.")
        if (root := self._root) is None:
            raise Unavailable(self._not_started())
        self._require_answers()
        return root

    def _require_answers(self) -> None:
        if self._watch is not None:
            self._watch.require()

    def answers(self) -> bool:
        """Whether the JVM answers at all. One that stands still, be it to collect garbage, is ended by who watches it, and nobody else."""
        return self._watch is None or self._watch.answers()

    def _still_starting(self) -> str:
        if not self._elsewhere:
            return "Spark is still starting."
        waited = time.monotonic() - self._since
        return f"Spark is still starting: for {waited:.0f} s it has waited for {self._settings.master} or for executors of it."

    def _not_started(self) -> str:
        where = f" at {self._settings.master} for {time.monotonic() - self._since:.0f} s" if self._elsewhere else ""
        return f"Spark did not start{where}, which is tried again: {self._failure}. {self._says_why()}"

    def lease(self, principal: str = "") -> SparkLease:
        """A hand on the pool for one statement of a user; costs nothing until it is used."""
        return SparkLease(self, principal)

    def session(self) -> SparkSession:
        """A new Spark session, which goes when nobody refers to it any more; raises `Unavailable` where Spark is away."""
        root = self.root()
        try:
            made = root.newSession()  # takes a few milliseconds
        except Exception as problem:  # as in `_marked`
            self.lost()
            raise Unavailable(_AWAY) from problem
        if self._root is not root:
            raise Unavailable(_AWAY)
        return made

    def is_root(self, root: SparkSession | None) -> bool:
        """Whether this is the first session of the Spark that runs now."""
        return self._root is root

    def spared(self, statement_id: str) -> bool:
        """Whether no task of a statement had begun when the last Spark was ended, and it can run as if it had waited for this one."""
        return statement_id in self._spared

    @contextlib.contextmanager
    def running(self, statement_id: str, *, principal: str = "", background: bool = False) -> Iterator[None]:
        """Mark what this thread starts as the statement's, in its user's share of Spark or in the one below all users'."""
        share = contextlib.nullcontext(BACKGROUND) if background else self._shares.pool_of(principal)
        with share as pool, self._marked(statement_id, pool, background=background):
            yield

    @contextlib.contextmanager
    def _marked(self, statement_id: str, pool: str, *, background: bool) -> Iterator[None]:
        context = self.root().sparkContext
        try:
            java = self._gateway().jvm.java.lang.Thread
            java.interrupted()  # a late interrupt was for the statement that had this thread before
            thread = java.currentThread()
            context.setJobGroup(statement_id, statement_id, interruptOnCancel=True)
            context.setLocalProperty("spark.scheduler.pool", pool)
        except Exception as problem:  # py4j has several for a JVM that is gone, and there is no other way for this to fail
            self.lost()
            raise Unavailable(_AWAY) from problem
        with self._interrupting:
            outer = self._threads.get(statement_id)
            self._threads[statement_id] = thread
        self._leftovers.begun(statement_id)
        try:
            with span("spark", {"spark.job_group": statement_id, "spark.background": background}) as traced:
                try:
                    yield
                    self._probe.succeeded()
                finally:
                    self._tell(statement_id, traced)
        finally:
            with self._interrupting:
                if outer is None:
                    self._threads.pop(statement_id, None)
                else:
                    self._threads[statement_id] = outer
            with contextlib.suppress(Exception):  # the JVM may be gone, and then so is the mark
                context.setLocalProperty("spark.jobGroup.id", "")
                context.setLocalProperty("spark.scheduler.pool", "")
            self._leftovers.ended(context, statement_id)

    def cancel(self, statement_id: str) -> None:
        """Stop the jobs of a statement; one without jobs is fine."""
        root = self._root
        if root is not None:
            root.sparkContext.cancelJobGroup(statement_id)

    def interrupt(self, statement_id: str) -> None:
        """Free a statement's thread that waits in the JVM for what does not come, as where the thread that would tell it has died."""
        with self._interrupting:
            thread = self._threads.get(statement_id)
            if thread is not None:
                thread.interrupt()

    def _busy(self) -> bool:
        """Whether a small job may have to wait for tasks: those of other machines are known by Spark's account alone."""
        root = self._root
        return root is not None and (runs_tasks(root.sparkContext) if self._elsewhere else bool(self.live_tasks()))

    def _lacking(self) -> str | None:
        root = self._root
        if root is None or not self._elsewhere or executors(root.sparkContext):
            return None
        return f"an executor of {self._settings.master}: its workers are away, or others hold their cores and memory"

    def _gateway(self) -> Any:
        from pyspark import SparkContext

        return self._java.gateway if self._java is not None else SparkContext._gateway

    def _small_job(self) -> None:
        if (root := self._root) is not None:
            root.newSession().sql("SELECT 1 AS a").toArrow()

    def ping(self) -> None:
        """Raise `Unavailable` unless Spark answers; it is asked without a job, which would wait behind those of users."""
        self._standby.expire()
        root = self._root
        if root is None or not self.ready:
            raise Unavailable(self._still_starting() if self._failure is None else self._not_started())
        self._require_answers()
        if state_of(root, self._gateway()) != "alive":
            self.lost()
            raise Unavailable(f"Spark does not answer. {self._says_why()}")
        if self._probe.hopeless():
            self.restart("small jobs wait for it while no task runs, or fail in it")
            raise Unavailable("Spark runs no jobs any more; it is being started anew.")

    def check(self) -> None:
        """Raise `Unavailable` unless Spark answers and runs jobs; where none has succeeded lately a small one is begun."""
        self.ping()
        self._probe.check()

    def _says_why(self) -> str:
        return "The server's log says why." if self._settings.log is None else f"Its log says why: {self._settings.log} on the server."

    def lost(self) -> None:
        """Where Spark is gone, forget all sessions and start it anew, once; where it answers, a small job tells whether it is of use."""
        root = self._root
        if root is None:
            return
        if (state := state_of(root, self._gateway())) != "alive":
            self._renew(root, state)
        elif self._probe.hopeless():
            self.restart("small jobs fail in it")
        else:
            self._probe.suspect()

    def restart(self, reason: str) -> None:
        """Start Spark anew although it answers: what hangs in it ends with its JVM, and what runs there fails once."""
        if (root := self._root) is not None:
            _log.error("Spark is started anew: %s", reason)
            self._renew(root, "stuck", self._waiting_for_cores(root))

    def _waiting_for_cores(self, root: SparkSession) -> set[str]:
        """The statements in Spark of which no task has begun."""
        waiting: set[str] = set()
        if not self.answers():
            return waiting
        with contextlib.suppress(Exception):  # where the JVM does not tell, all of them fail
            for statement_id in list(self._threads):
                if not begun(root.sparkContext, statement_id):
                    waiting.add(statement_id)
        return waiting

    def _renew(self, root: SparkSession, state: str, spared: Collection[str] = ()) -> None:
        with self._lock:
            if self._root is not root or self._stopped:
                return  # another statement noticed first
            self._root = None
            self._starts += 1
            self._failure = None
            self._since = time.monotonic()
            self._started.clear()
            self._threads.clear()
            self._spared = set(spared)
        _log.warning("Spark is gone (%s); starting it anew", state)
        with self._starting:  # also one whose context has ended: short of memory, it may be about to die, and a start in it would fail
            self._end_jvm(root, stuck=state != "dead")
        self.start_in_background()

    def stop(self) -> None:
        """Stop Spark."""
        with self._lock:
            self._stopped = True
            self._stopping.set()
            root, java, self._root = self._root, self._java, None
        self._probe.close()
        self._leftovers.close()
        self._standby.close()
        if self._settings.classes is not None:
            self._settings.classes.close()
        if root is not None:
            self._end_jvm(root)
        elif java is not None:  # it came up, and no context did; it may stand still, and who waits for it forgets it now
            java.kill()
            java.end()
        else:
            self._scratch.end_jvm()
        self._scratch.remove()

    def _end_jvm(self, root: SparkSession, *, stuck: bool = False) -> None:
        """Stop Spark, and with it a JVM of ours; one that answers has time to do so in order."""
        if self._java is None:
            stop_in_any_case(root)
            return
        if stuck or not self.answers():
            self._java.kill()  # stopping it in order would wait for what hangs
        if self._watch is not None:
            self._watch.hurry()
        last = threading.Timer(_STOP_SECONDS, self._java.kill)
        last.start()
        stop_in_any_case(root)
        last.cancel()
        self._java.end()
        self._java = None
        forget_gateway()

    def _forget_jvm(self) -> None:
        """End a JVM of ours without a session; one of somebody else's, as of tests, stays."""
        if self._java is not None:
            self._java.kill()
            self._java.end()
            self._java = None
            forget_gateway()
