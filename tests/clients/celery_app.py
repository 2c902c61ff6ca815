"""Tasks with Celery: results, chains, groups, chords, countdowns, retries, rate limits. Usage: celery_app.py PORT PASSWORD"""

import sys
import threading

from celery import Celery, chain, chord, group
from celery.contrib.testing.worker import start_worker

port, password = int(sys.argv[1]), sys.argv[2]
url = f"redis://:{password}@127.0.0.1:{port}"
app = Celery("tasks", broker=f"{url}/1", backend=f"{url}/2")
app.conf.update(task_serializer="json", result_serializer="json", accept_content=["json"], broker_connection_retry_on_startup=True, worker_hijack_root_logger=False)
attempts = {}
WAIT = 120


@app.task
def add(a, b):
    return a + b


@app.task
def total(numbers):
    return sum(numbers)


@app.task(bind=True, max_retries=3, default_retry_delay=0)
def unsteady(self, name):
    attempts[name] = attempts.get(name, 0) + 1
    if attempts[name] < 3:
        raise self.retry(countdown=0)
    return attempts[name]


@app.task
def broken():
    raise ValueError("broken on purpose")


with start_worker(app, pool="threads", concurrency=4, perform_ping_check=False, shutdown_timeout=60):
    assert add.delay(2, 3).get(timeout=WAIT) == 5
    assert [result.get(timeout=WAIT) for result in [add.delay(i, i) for i in range(100)]] == [2 * i for i in range(100)]
    assert chain(add.s(1, 2), add.s(3), add.s(4))().get(timeout=WAIT) == 10
    assert group(add.s(i, 1) for i in range(10))().get(timeout=WAIT) == list(range(1, 11))
    assert chord([add.s(i, i) for i in range(10)], total.s())().get(timeout=WAIT) == 90
    assert add.apply_async((1, 1), countdown=0.3, priority=5).get(timeout=WAIT) == 2
    assert unsteady.delay("x").get(timeout=WAIT) == 3
    try:
        broken.delay().get(timeout=WAIT)
        raise AssertionError("a failing task must fail")
    except ValueError as error:
        assert str(error) == "broken on purpose"
    revoked = add.apply_async((1, 1), countdown=3600)
    revoked.revoke()
    assert threading.active_count() > 1

print("ok")
