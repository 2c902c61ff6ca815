"""Jobs with RQ: a burst worker, failures, dependencies, a scheduled job. Usage: rq_jobs.py PORT PASSWORD"""

import datetime
import operator
import sys

import redis
from rq import Queue, SimpleWorker
from rq.job import JobStatus

connection = redis.Redis(port=int(sys.argv[1]), password=sys.argv[2], db=3)
queue = Queue("rq", connection=connection)
jobs = [queue.enqueue(operator.add, i, 1) for i in range(20)]
first = queue.enqueue(operator.mul, 6, 7)
second = queue.enqueue(operator.neg, 1, depends_on=first)
failing = queue.enqueue(operator.truediv, 1, 0)
queue.enqueue_in(datetime.timedelta(hours=1), operator.add, 1, 1)
SimpleWorker([queue], connection=connection).work(burst=True, logging_level="ERROR")
assert [job.return_value() for job in jobs] == [i + 1 for i in range(20)]
assert (first.return_value(), second.return_value()) == (42, -1)
assert failing.get_status() == JobStatus.FAILED
assert queue.failed_job_registry.count == 1
assert queue.scheduled_job_registry.count == 1
assert queue.count == 0
print("ok")
