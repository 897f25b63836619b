from tests.history.rows import Story, land, NOON
import pytest, time

@pytest.mark.timeout(300)
def test_x(history):
    s = Story().watch(0, 600).sample(1, 3, whole=True, enqueued_messages=3, dequeued_messages=0).sample(60,11,enqueued_messages=14, dequeued_messages=3, state="OVERFULL", capacity_messages=10).overfull(60).blocked(60).sample(80, 20).underfull(90).released(90).sample(91, 5)
    land(history.url, s.rows)
    print(history.run())
    for t in ("events","samples","coverage","holds","episodes","minutes","hours","days","taken"):
        print(t); history.tables.read(t).toPandas().to_csv(__import__("sys").stdout)
    for i in range(4):
        land(history.url, Story().watch(600+i*10, 610+i*10).sample(600+i*10, 5+i).rows)
        t=time.time(); print(history.run(), time.time()-t)
