"""A mail server with STARTTLS. Arguments: certificate, key, and how it behaves:
`offers`, `strips` (does not offer STARTTLS), `refuses` (offers it, and then answers 454), `injects` (sends
plaintext answers behind the one to STARTTLS, as somebody on the way could).

Prints its port, then for each connection what the client said in plain text and what it said under TLS."""
import json
import socket
import ssl
import sys

certificate, key, mode = sys.argv[1:]
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(certificate, key)


def converse(stream, said, before_tls):
    """Answers until the client begins TLS or goes; whether it begins TLS."""
    reader = stream.makefile("rb")
    is_data = False
    while line := reader.readline():
        said.append(line.decode().rstrip("\r\n"))
        word = said[-1].split(" ")[0].upper()
        if is_data:
            is_data = said[-1] != "."
            answer = "" if is_data else "250 taken"
        elif word == "EHLO":
            is_offered = before_tls and mode != "strips"
            answer = "250-test\r\n" + ("250-STARTTLS\r\n" if is_offered else "") + "250 AUTH PLAIN"
        elif word == "STARTTLS" and mode == "refuses":
            answer = "454 not now"
        elif word == "STARTTLS":
            injected = b"250-evil\r\n250 AUTH PLAIN\r\n235 welcome\r\n" if mode == "injects" else b""
            stream.sendall(b"220 begin\r\n" + injected)
            return True
        elif word == "AUTH":
            answer = "235 welcome"
        elif word == "DATA":
            is_data, answer = True, "354 go on"
        elif word == "QUIT":
            stream.sendall(b"221 bye\r\n")
            return False
        else:
            answer = "250 ok"
        if answer:
            stream.sendall(answer.encode() + b"\r\n")
    return False


def serve(stream):
    plain, sealed, error = [], [], ""
    try:
        stream.sendall(b"220 test ESMTP\r\n")
        if converse(stream, plain, True):
            stream = context.wrap_socket(stream, server_side=True)
            converse(stream, sealed, False)
    except OSError as failed:
        error = str(failed)
    stream.close()
    print(json.dumps({"plain": plain, "sealed": sealed, "error": error}), flush=True)


listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
while True:
    serve(listener.accept()[0])
