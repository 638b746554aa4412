package server

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"cqld/auth"
	"cqld/internal/memory"
	"cqld/internal/wire"
	"cqld/query"
	"cqld/query/invalid"
	"cqld/server/frame"
)

// judge checks a request's header. It returns an error, and whether the connection must end because of it. Messages
// are Cassandra's, because drivers and their tests search in them. It examines the header only. A non-fatal error
// refuses the message alone, and the connection continues after its body.
func (c *conn) judge(h header) (fatal bool, err error) {
	switch {
	// A client that sends the bit of responses, or an opcode of responses, gets the message for the wrong direction.
	case h.Response && h.Opcode.Response(), h.Response && h.Opcode.Request():
		return false, wrongDirection("REQUEST", "RESPONSE", h.Opcode)
	case h.Opcode.Response():
		return false, wrongDirection("RESPONSE", "REQUEST", h.Opcode)
	case !h.Opcode.Request():
		return false, protocolError("Unknown opcode " + strconv.Itoa(int(h.Opcode)))
	}
	// A client must ask for a beta version explicitly, by the flag.
	if err := h.CheckBeta(); err != nil {
		return false, err
	}
	at := stage(c.stage.Load())
	// The version is fixed by STARTUP; until then each message must have one that is allowed.
	if at == stageStartup {
		if err := c.server.checkVersion(h.Version); err != nil {
			return true, err
		}
	}
	if at != stageStartup && h.Version != c.version {
		return false, versionMismatch(h.Version, c.version)
	}
	switch {
	// OPTIONS is allowed at every stage: drivers use it before STARTUP, and as a heartbeat.
	case at == stageStartup && h.Opcode != frame.OpStartup && h.Opcode != frame.OpOptions:
		return true, protocolError("Unexpected message " + h.Opcode.String() + ", expecting STARTUP or OPTIONS")
	case at == stageAuth && h.Opcode != frame.OpAuthResponse && h.Opcode != frame.OpOptions:
		return true, protocolError("Unexpected message " + h.Opcode.String() + ", expecting SASL_RESPONSE")
	case at == stageReady && h.Opcode == frame.OpStartup:
		return false, protocolError("Unexpected message STARTUP, the connection is already initialized")
	case at == stageReady && h.Opcode == frame.OpAuthResponse:
		return false, protocolError("Unexpected message AUTH_RESPONSE, the connection is already authenticated")
	}
	if at != stageReady && h.Length > handshakeFrameMax {
		c.server.limited[BoundHandshakeBytes].Add(1)
		return true, protocolError(fmt.Sprintf("Request is too big before authentication: length %d exceeds maximum "+
			"allowed length %d.",
			h.Length+frame.HeaderSize, handshakeFrameMax))
	}
	return false, c.tooBig(h)
}

// tooBig refuses a request larger than FrameBytesMax with Cassandra's message and code. The bound applies to the body
// in protocol v5, and to the whole frame in earlier versions. The connection continues.
func (c *conn) tooBig(h header) error {
	switch bound := c.server.limits.FrameBytesMax; {
	// Before STARTUP the version is zero, and the smaller bound of the handshake has been checked already.
	case c.version >= 5 && h.Length > bound:
		return &invalid.Error{Msg: fmt.Sprintf("CQL Message of size %d bytes exceeds allowed maximum of %d bytes",
			h.Length, bound)}
	case c.version < 5 && h.Length+frame.HeaderSize > bound:
		return &invalid.Error{Msg: fmt.Sprintf("Request is too big: length %d exceeds maximum allowed length %d.",
			h.Length+frame.HeaderSize, bound)}
	}
	return nil
}

func protocolError(message string) error { return &frame.ProtocolError{Message: message} }

// wrongDirection returns the error for a response that a client sent as a request, or the reverse.
func wrongDirection(expected, got string, o frame.Opcode) error {
	return protocolError(fmt.Sprintf("Wrong protocol direction (expected %s, got %s) for opcode %d (%s)", expected,
		got, uint8(o), o))
}

// versionMismatch returns the error for another version than the one of STARTUP.
func versionMismatch(got, want frame.Version) error {
	return protocolError(fmt.Sprintf("Invalid message version. Got %v but previous messages on this connection had "+
		"version %v", got, want))
}

// startup sets the version, compression and options of the connection. An error in the options is answered without
// changing the stage, because drivers probe for compressions and versions.
func (c *conn) startup(h header, pairs []frame.StringPair, err error, charge memory.Held) error {
	options := make(map[string]string, len(pairs))
	for _, p := range pairs {
		// Keys are compared in upper case, as in Cassandra. Of a key that was sent twice, the last value counts.
		options[strings.ToUpper(p.Key)] = p.Value
	}
	var compression frame.Compression
	if err == nil {
		err = checkCQLVersion(options)
	}
	if err == nil {
		// Without the option the result is NoCompression.
		compression, err = frame.ParseCompression(options["COMPRESSION"], h.Version)
	}
	if err != nil {
		c.refuse(h, err, charge)
		return nil
	}
	// Nothing is set after an error, so that the client may send another STARTUP.
	c.version, c.compression, c.options = h.Version, compression, options
	// The client prefers an error to waiting, for memory or for the rate limit.
	c.throw = options["THROW_ON_OVERLOAD"] == "1"
	c.session.Store(&query.Session{Version: int(h.Version), Options: options})
	if a := c.server.options.Authenticator; a != nil {
		// Each STARTUP begins a new exchange; the stage admits only one.
		c.exchange = c.begin(a)
		c.stage.Store(uint32(stageAuth))
		c.answer(h, frame.OpAuthenticate, charge, func(dst []byte) []byte { return wire.AppendString(dst, a.Class()) })
		c.beginFraming()
		return nil
	}
	c.ready()
	c.answer(h, frame.OpReady, charge, nil)
	c.beginFraming()
	return nil
}

// beginFraming switches a v5 connection to segments after the envelopes sent so far.
func (c *conn) beginFraming() {
	if c.version < frame.V5 {
		return
	}
	// The client switches when it has read the answer, so its next message is framed.
	c.reader.framed = true
	var compressor *frame.Compressor
	if c.compression == frame.LZ4 {
		compressor = c.server.compressor
	}
	// The switch is queued after the answer, which is not framed.
	c.out.Frame(compressor)
}

// ready ends the handshake and its limits.
func (c *conn) ready() {
	c.stage.Store(uint32(stageReady))
	// The connection no longer counts as one that may be closed for newer ones.
	c.server.handshakes.end(c)
	c.reader.idleAt = time.Time{}
	c.reader.setReadDeadline(time.Time{})
}

// authenticate handles one token of the client. After a refusal the connection ends, so each attempt costs the client a
// connection.
func (c *conn) authenticate(h header, token []byte, err error, charge memory.Held) error {
	if err != nil {
		c.refuse(h, err, charge)
		return errHangUp
	}
	user, done, challenge, err := c.evaluate(token)
	if err != nil {
		c.refuse(h, err, charge)
		return errHangUp
	}
	// The mechanism needs another token, for which the client has the rest of HandshakeTimeout.
	if !done {
		c.answer(h, frame.OpAuthChallenge, charge, func(dst []byte) []byte { return wire.AppendBytes(dst, challenge) })
		return nil
	}
	c.user.Store(&auth.Principal{Name: user})
	c.account.SetRole(c.server.memory.Role(user))
	c.exchange = nil
	// recheck is called after user is set, so that a concurrent change of roles is seen either by it or by
	// RecheckClients.
	c.recheck()
	c.ready()
	c.answer(h, frame.OpAuthSuccess, charge, func(dst []byte) []byte { return wire.AppendBytes(dst, challenge) })
	return nil
}

// answer sends a message of the handshake; body may be nil.
func (c *conn) answer(h header, op frame.Opcode, charge memory.Held, body func([]byte) []byte) {
	// Send copies the envelope, so the memory can be used for the next one.
	dst := frame.AppendHeader(c.reply[:0], header{Version: h.Version, Response: true, Stream: h.Stream, Opcode: op})
	if body != nil {
		dst = body(dst)
	}
	frame.FinishEnvelope(dst, 0)
	c.reply = dst
	c.out.Send(dst, charge)
}

// refuse sends an error about a request that does not reach a worker.
func (c *conn) refuse(h header, err error, charge memory.Held) {
	e := c.server.wireError(err)
	c.answer(h, frame.OpError, charge, func(dst []byte) []byte { return frame.AppendError(dst, h.Version, e) })
}

// checkCQLVersion accepts any CQL version of 2.99.0 or later, as Cassandra does.
func checkCQLVersion(options map[string]string) error {
	version, ok := options["CQL_VERSION"]
	if !ok {
		return protocolError("Missing value CQL_VERSION in STARTUP message")
	}
	// A suffix such as -SNAPSHOT does not count.
	core, _, _ := strings.Cut(version, "-")
	parts := strings.Split(core, ".")
	numbers := [3]int{}
	for i, part := range parts {
		n, err := strconv.Atoi(part)
		if err != nil || n < 0 || i >= len(numbers) || len(parts) < 2 {
			return protocolError("Invalid version value: " + version)
		}
		numbers[i] = n
	}
	if numbers[0] < 2 || numbers[0] == 2 && numbers[1] < 99 {
		return protocolError("CQL version " + version +
			" is not supported by the binary protocol (supported version are >= 3.0.0)")
	}
	return nil
}
