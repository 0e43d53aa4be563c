import time, pytest, random, string
from tests.configs.support import put, patch, effective
from controlplane.configs.selectors import config_effective
from controlplane.configs.cache import effective_cache
from controlplane.configs.validation import check_document, check_secrets
from controlplane.configs.pointers import diff
from tests.factories import make_node
pytestmark = pytest.mark.django_db
def doc(kb):
    d={"agents":{}}
    import orjson
    i=0
    while len(orjson.dumps(d))<kb*1000:
        d["agents"][f"agent{i}"]={"enabled":True,"name":f"Agent {i}","description":"Looks at deployments and metrics of the cluster","model":{"name":"sonnet","max_tokens":4096},"prompt":{"system":"You are an investigator. "*20,"prefix":""},"tools":{f"t{j}":True for j in range(10)}}
        i+=1
    return d
def T(label,f,n=1):
    t=time.perf_counter()
    for _ in range(n): f()
    print(label, round((time.perf_counter()-t)/n*1000,2),"ms")
def test_perf(tree):
    small,big=doc(20),doc(250)
    T("check 20K",lambda:check_document(small),5); T("check 250K",lambda:check_document(big))
    T("secrets 20K",lambda:check_secrets(small,diff({},small)),3); T("secrets 250K",lambda:check_secrets(big,diff({},big)))
    T("put 20K",lambda:put(tree.root,small)); T("put 250K",lambda:put(tree.engineering,big))
    T("patch of 20K",lambda:patch(tree.root,{"x":random.random()}),5)
    T("patch of 250K",lambda:patch(tree.engineering,{"x":random.random()}),2)
    def cold(): effective_cache.clear(); effective(tree.payments)
    T("cold",cold,3); T("warm",lambda:effective(tree.payments),20)
    put(tree.engineering,{})
    T("cold small",cold,3); T("warm small",lambda:effective(tree.payments),50)
