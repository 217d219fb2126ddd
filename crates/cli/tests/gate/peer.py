"""A server for the tests of eras: one era (first word), on standard streams or, with a second word, over
HTTP, where it asks its questions on its own stream. That word is its port, 0 for any; the port is its
first line then. With a third word it answers calls with one message instead of a stream."""
import itertools, json, os, queue, sys, threading, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

MODERN, HTTP, PLAIN = sys.argv[1] != "legacy", len(sys.argv) > 2, len(sys.argv) > 3
# It says nothing to the first question, as if it had not started yet.
late = sys.argv[1] == "late"
META = "io.modelcontextprotocol/"
TASKS = META + "tasks"
TOOLS = ["touch", "level", "capabilities", "form", "address", "model", "steps", "endless", "hold", "chatter", "cancelled", "logs", "opens", "strict", "job", "subscribed", "several", "die"]
URIS = ["res://open", "res://closed"]
FORM = {"mode": "form", "message": "who?", "requestedSchema": {"type": "object", "properties": {"n": {"type": "string"}}}}
ADDRESS = {"mode": "url", "message": "go", "url": "https://example.com", **({} if MODERN else {"elicitationId": "e"})}
MODEL = {"messages": [], "maxTokens": 1, "tools": []}
QUESTIONS = {"form": ("elicitation/create", FORM), "address": ("elicitation/create", ADDRESS), "model": ("sampling/createMessage", MODEL)}

lock, answers, listening, told = threading.Lock(), {}, {}, {"level": None, "capabilities": None, "cancelled": None, "calls": 0, "subscribed": []}
own = queue.Queue()
SESSION = "s%d" % os.getpid()
tasks, numbers = {}, itertools.count(1)
held, asks, answered = threading.Event(), threading.Event(), threading.Event()


class Refused(Exception):
    def __init__(self, words, code=-32601, data=None):
        super().__init__(words)
        self.error = {"code": code, "message": words, **({} if data is None else {"data": data})}


def text(words):
    return {"content": [{"type": "text", "text": json.dumps(words)}]}


def say(message, put):
    put({"jsonrpc": "2.0", **message})


def news(put):
    if not MODERN:
        say({"method": "notifications/tools/list_changed"}, own.put if HTTP else put)
    for id, (wanted, to) in list(listening.items()):
        for uri in URIS:
            if uri in wanted.get("resourceSubscriptions", []):
                tag = {META + "subscriptionId": id}
                say({"method": "notifications/resources/updated", "params": {"uri": uri, "_meta": tag}}, to)


def asked(method, params, put):
    return asked_at_once([(method, params)], put)[0]


def asked_at_once(questions, put):
    """The answers to questions that go out in one piece, so that they come together."""
    ids = ["question-%d" % next(numbers) for _ in questions]
    answers.update({id: queue.Queue() for id in ids})
    messages = [{"jsonrpc": "2.0", "id": id, "method": method, "params": params} for id, (method, params) in zip(ids, questions)]
    (own.put if HTTP else put)(messages)
    asks.set()
    found = [answers[id].get() for id in ids]
    answered.set()
    return found


def pieces(message):
    return message if isinstance(message, list) else [message]


def rounds(params, last, put):
    """Three questions, and a word about each before it."""
    token = params.get("_meta", {}).get("progressToken")
    number = int(params.get("requestState", "0"))
    if token is not None:
        step = {"progressToken": token, "progress": number + 1}
        say({"method": "notifications/progress", "params": step}, put)
    if number == last:
        return text("done")
    questions = {"q": {"method": "elicitation/create", "params": FORM}} if last else {}
    return {"resultType": "input_required", "requestState": str(number + 1), "inputRequests": questions}


def job(task, params, put):
    """Ends after two looks at it, or when it was cancelled; with `ask` it asks something first."""
    arguments = params["arguments"]
    time.sleep(0.5 if arguments.get("later") else 0)
    if arguments.get("ask"):
        task["status"] = "input_required"
        older_news(task, put)
        # Server requests go to the stream of the client that waits for the result.
        task["came"] = text(asked("elicitation/create", FORM, lambda message: task["wanted"].get()(message)))
        task["status"] = "working"
    elif arguments.get("break"):
        task["came"] = Refused("broke", -32603)
    else:
        task["came"] = {**text({"n": 7, "secret": "s"}), "isError": bool(arguments.get("fail"))}
    task["ready"].wait(0.2 if arguments.get("short") else 30)
    if task["status"] == "working":
        failed = isinstance(task["came"], Refused) or task["came"].get("isError")
        task["status"] = "failed" if failed else "completed"
    task["done"].set()
    older_news(task, put)


def older_news(task, put):
    say({"method": "notifications/tasks/status", "params": shown(task)}, own.put if HTTP else put)


def shown(task):
    return {"createdAt": "2026-11-17T00:00:00Z", "lastUpdatedAt": "2026-11-17T00:00:01Z", "ttl": 60000, "pollInterval": 50, **{key: task[key] for key in ("taskId", "status")}}


def of_tasks(method, params, put):
    task = tasks.get(params["taskId"])
    if task is None:
        raise Refused("no such task", -32602)
    if method == "tasks/cancel":
        task["status"] = "cancelled"
        task["ready"].set()
        told["cancelled"] = task["taskId"]
    if method == "tasks/result":
        task["wanted"].put(put)
        task["done"].wait()
        if isinstance(task["came"], Refused):
            raise task["came"]
        return {**task["came"], "_meta": {META + "related-task": {"taskId": task["taskId"]}}}
    if method == "tasks/get" and task["status"] == "working":
        task["looks"] += 1
        if task["looks"] == 2:
            task["ready"].set()
            task["done"].wait()
    return shown(task)


def newer_job(task, arguments):
    """The same in the newer era: what it asks lies in it until it was updated."""
    if arguments.get("ask"):
        task["asks"] = {"q": {"method": "elicitation/create", "params": FORM}}
        task["status"] = "input_required"
        task["came"] = text(task["answers"].get())
        task["status"] = "working"
    elif arguments.get("break"):
        task["came"] = Refused("broke", -32603)
    else:
        task["came"] = {**text({"n": 7, "secret": "s"}), "isError": bool(arguments.get("fail"))}
    task["ready"].wait(0.2 if arguments.get("short") else 30)
    if task["status"] == "working":
        task["status"] = "failed" if isinstance(task["came"], Refused) else "completed"
    newer_news(task)


def newer_shown(task):
    shown = {"createdAt": "2026-11-17T00:00:00Z", "lastUpdatedAt": "2026-11-17T00:00:01Z", "ttlMs": 60000, "pollIntervalMs": 50, "statusMessage": "look %d" % task["looks"], **{key: task[key] for key in ("taskId", "status")}}
    if task["status"] == "input_required":
        shown["inputRequests"] = task["asks"]
    if task["status"] == "completed":
        shown["result"] = {**task["came"], "resultType": "complete"}
    if task["status"] == "failed":
        shown["error"] = task["came"].error
    return shown


def newer_news(task):
    for id, (wanted, put) in list(listening.items()):
        if task["taskId"] in wanted.get("taskIds", []):
            say({"method": "notifications/tasks", "params": {**newer_shown(task), "_meta": {META + "subscriptionId": id}}}, put)


def takes_tasks(params):
    if TASKS not in params["_meta"][META + "clientCapabilities"].get("extensions", {}):
        raise Refused("tasks are needed", -32021, {"requiredCapabilities": {"extensions": {TASKS: {}}}})


def of_newer_tasks(method, params):
    takes_tasks(params)
    task = tasks.get(params["taskId"])
    if task is None:
        raise Refused("no such task", -32602)
    if method == "tasks/cancel":
        if task["status"] in ("working", "input_required"):
            task["status"] = "cancelled"
        task["ready"].set()
        told["cancelled"] = task["taskId"]
        return {}
    if method == "tasks/update":
        task["answers"].put(params["inputResponses"].get("q"))
        return {}
    task["looks"] += 1
    if task["status"] == "working" and task["looks"] == 2:
        task["ready"].set()
    return newer_shown(task)


def newer_call(params):
    arguments = params.get("arguments", {})
    if arguments.get("now"):
        return text("at once")
    takes_tasks(params)
    task = {"taskId": "task-%d" % len(tasks), "status": "working", "looks": 0, "answers": queue.Queue(), "ready": threading.Event()}
    tasks[task["taskId"]] = task
    threading.Thread(target=newer_job, args=(task, arguments), daemon=True).start()
    return {**newer_shown({**task, "status": "working"}), "resultType": "task"}


def call(name, params, put):
    if name == "job" and MODERN:
        return newer_call(params)
    if name == "job":
        if "task" not in params:
            raise Refused("only as a task")
        task = {"taskId": "task-%d" % len(tasks), "status": "working", "looks": 0, "wanted": queue.Queue(), "ready": threading.Event(), "done": threading.Event()}
        tasks[task["taskId"]] = task
        threading.Thread(target=job, args=(task, params, put), daemon=True).start()
        return {"task": shown(task)}
    if name == "touch":
        news(put)
        return text("touched")
    if name == "capabilities" and MODERN:
        return text(params["_meta"][META + "clientCapabilities"])
    if name in told:
        return text(told[name])
    if name == "die":
        os._exit(1)
    if name == "hold":
        held.set()
        (asks if params.get("arguments") else answered).wait()
        return text("held")
    if name == "chatter":
        for _ in range(1000):
            if told["cancelled"] is not None:
                break
            time.sleep(0.01)
            step = {"progressToken": params["_meta"]["progressToken"], "progress": time.monotonic()}
            say({"method": "notifications/progress", "params": step}, put)
        return text("cancelled")
    if name == "logs":
        say({"method": "notifications/message", "params": {"level": "info", "data": "one"}}, own.put if HTTP else put)
        time.sleep(0.3)
        say({"method": "notifications/progress", "params": {"progressToken": params["_meta"]["progressToken"], "progress": 1}}, put)
        time.sleep(0.3)
        return text("logged")
    if name == "opens":
        told["calls"] += 1
        if params["arguments"].get("never") or told["calls"] == 1:
            raise Refused("sign in", -32042, {"elicitations": [ADDRESS]})
        return text(told["calls"])
    if name == "several":
        keys = ["form", "model"]
        return text(dict(zip(keys, asked_at_once([QUESTIONS[key] for key in keys], put))))
    if name == "strict":
        answer = asked("sampling/createMessage", {"messages": [], "maxTokens": 1}, put)
        return {**text(answer), "isError": "code" in answer}
    if name in ("steps", "endless"):
        return rounds(params, 2 if name == "steps" else None, put)
    method, question = QUESTIONS[name]
    if "mebibytes" in params.get("arguments", {}):
        question = {**question, "message": "?" * (params["arguments"]["mebibytes"] << 20)}
    if not MODERN:
        if "after_hold" in params.get("arguments", {}):
            held.wait()
        return text(asked(method, question, put))
    if "inputResponses" in params:
        return text(params["inputResponses"]["q"])
    return {"resultType": "input_required", "requestState": "s", "inputRequests": {"q": {"method": method, "params": question}}}


def result(method, params, put):
    if MODERN and META + "protocolVersion" not in params.get("_meta", {}):
        raise Refused("version")
    offers = {"tools": {"listChanged": True}, "resources": {"subscribe": True}, "logging": {}}
    offers["extensions"] = {META + "ui": {"a": 1}}
    if MODERN:
        offers["extensions"][TASKS] = {}
    else:
        offers["tasks"] = {"cancel": {}, "requests": {"tools": {"call": {}}}}
    if method.startswith("tasks/"):
        return of_newer_tasks(method, params) if MODERN else of_tasks(method, params, put)
    if method == "initialize" and not MODERN:
        told["capabilities"] = params["capabilities"]
        return {"protocolVersion": params["protocolVersion"], "capabilities": offers, "serverInfo": {"name": "p", "version": "1"}}
    if method == "server/discover" and MODERN:
        return {"supportedVersions": ["2026-07-28"], "capabilities": offers}
    if method == "tools/list":
        job = {} if MODERN else {"execution": {"taskSupport": "required"}}
        return {"tools": [{"name": name, "inputSchema": {"type": "object"}, **(job if name == "job" else {})} for name in TOOLS]}
    if method == "resources/list":
        return {"resources": [{"uri": uri, "name": uri} for uri in URIS]}
    if method == "resources/templates/list":
        return {"resourceTemplates": []}
    if method == "logging/setLevel" and not MODERN:
        told["level"] = params["level"]
        return {}
    if method in ("resources/subscribe", "resources/unsubscribe") and not MODERN:
        kept = [uri for uri in told["subscribed"] if uri != params["uri"]]
        told["subscribed"] = kept + ([params["uri"]] if method == "resources/subscribe" else [])
        return {}
    if method == "tools/call":
        return call(params["name"], params, put)
    raise Refused("no such method")


def answer(message, put):
    params = message.get("params") or {}
    try:
        found = result(message["method"], params, put)
        if MODERN:
            found = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private", **found}
        say({"id": message["id"], "result": found}, put)
    except Refused as why:
        say({"id": message["id"], "error": why.error}, put)


def taken(message):
    """What asks for no answer."""
    if "method" not in message and message["id"] in answers:
        answers[message["id"]].put(message.get("result", message.get("error")))
    if message.get("method") == "notifications/cancelled":
        listening.pop(message["params"]["requestId"], None)
        told["cancelled"] = message["params"]["requestId"]
    return "method" not in message or "id" not in message


def listen(message, put):
    wanted = message["params"].get("notifications", {})
    listening[message["id"]] = (wanted, put)
    tag = {META + "subscriptionId": message["id"]}
    say({"method": "notifications/subscriptions/acknowledged", "params": {"notifications": wanted, "_meta": tag}}, put)


def on_streams():
    def put(message):
        with lock:
            print("\n".join(map(json.dumps, pieces(message))), flush=True)

    if late:
        sys.stdin.readline()
    for line in sys.stdin:
        message = json.loads(line)
        if taken(message):
            continue
        work = listen if MODERN and message["method"] == "subscriptions/listen" else answer
        threading.Thread(target=work, args=(message, put), daemon=True).start()


class OverHttp(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def begin(self, status, kind, more=()):
        self.send_response(status)
        for name, value in [("content-type", kind), *more]:
            self.send_header(name, value)
        self.end_headers()

    def event(self, message):
        self.wfile.write("".join("data: %s\n\n" % json.dumps(one) for one in pieces(message)).encode())
        self.wfile.flush()

    def is_unknown(self, method=None):
        """Whether this is a session of another process; it hears so."""
        unknown = method != "initialize" and self.headers["mcp-session-id"] != SESSION
        if unknown:
            self.begin(404, "text/plain", [("content-length", "0")])
        return unknown

    def do_GET(self):
        global own
        if self.is_unknown():
            return
        own = mine = queue.Queue()
        self.begin(200, "text/event-stream", [("connection", "close")])
        while True:
            self.event(mine.get())

    def do_DELETE(self):
        self.begin(200, "text/plain", [("content-length", "0")])

    def do_POST(self):
        message = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if self.is_unknown(message.get("method")):
            return
        if taken(message):
            return self.begin(202, "text/plain", [("content-length", "0")])
        if PLAIN or message["method"] != "tools/call":
            said = []
            answer(message, said.append)
            body = json.dumps(said[-1]).encode()
            self.begin(200, "application/json", [("content-length", str(len(body))), ("mcp-session-id", SESSION)])
            return self.wfile.write(body)
        self.begin(200, "text/event-stream", [("connection", "close")])
        self.close_connection = True
        answer(message, self.event)

    def log_message(self, *words):
        pass


if HTTP:
    server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[2])), OverHttp)
    print(server.server_port, flush=True)
    server.serve_forever()
else:
    on_streams()
