package server

import (
	"bytes"
	"errors"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"testing"

	"cqld/internal/wire"
	"cqld/query"
	"cqld/request"
	"cqld/ring"
	"cqld/server/frame"
)

// costly is a Processor whose statements read rows; the text "fail" fails after it has read.
func costly() *fake {
	read := func(r *request.Request, fail bool) (*query.Result, error) {
		r.Cost = request.Cost{Rows: 3, Tombstones: 2, Partitions: 1, Commands: 4, Bytes: 500}
		if r.Measured() {
			r.Cost.Path = "scan"
		}
		r.Warn("careful")
		if fail {
			return nil, errors.New("it fails")
		}
		return rowsOf(1, "cell"), nil
	}
	return &fake{
		query: func(r *request.Request, _ *query.Session, text string, _ *query.Params) (*query.Result, error) {
			return read(r, text == "fail")
		},
		execute: func(r *request.Request, _ *query.Session, _ []byte, _ *query.Params) (*query.Result, error) {
			return read(r, false)
		},
		batch: func(r *request.Request, _ *query.Session, _ *query.BatchParams) (*query.Result, error) {
			return read(r, false)
		},
	}
}

// withPayload puts a custom payload before the message of a request.
func withPayload(message []byte, keys ...string) []byte {
	payload := map[string][]byte{}
	for _, k := range keys {
		payload[k] = []byte("1")
	}
	return append(frame.AppendPrefix(nil, frame.FlagCustomPayload, frame.Prefix{CustomPayload: payload}), message...)
}

func TestCustomPayloadRequestsCost(t *testing.T) {
	_, addr := start(t, Options{Processor: costly()})
	everyWay(t, func(t *testing.T, v frame.Version, options []frame.StringPair) {
		c := connect(t, addr, v, options...)
		params := frame.Params{Consistency: ring.One, SerialConsistency: ring.Serial}
		messages := map[frame.Opcode][]byte{
			frame.OpQuery: queryBody(v, "SELECT"),
			frame.OpExecute: (&frame.Execute{ID: []byte{1}, ResultMetadataID: []byte{1}, Params: params}).Append(nil,
				v),
			frame.OpBatch: (&frame.Batch{Statements: []frame.BatchStatement{{Query: "INSERT"}},
				Params: params}).Append(nil, v),
			frame.OpPrepare: (&frame.Prepare{Query: "SELECT"}).Append(nil, v),
		}
		for op, message := range messages {
			c.write(op, 1, 0, message)
			plainHeader, plain := c.read()
			if plainHeader.Flags&frame.FlagCustomPayload != 0 {
				t.Fatalf("%v without a payload is answered with one", op)
			}
			if v < frame.V4 {
				continue
			}
			c.write(op, 1, frame.FlagCustomPayload, withPayload(message, "other"))
			if h, body := c.read(); h != plainHeader || !bytes.Equal(body, plain) {
				t.Errorf("%v with another payload is answered by %v %x, want %v %x", op, h, body, plainHeader, plain)
			}
			c.write(op, 1, frame.FlagCustomPayload, withPayload(message, costKey, "other"))
			h, body := c.read()
			if op == frame.OpPrepare {
				if h != plainHeader || !bytes.Equal(body, plain) {
					t.Errorf("PREPARE with %s is answered by %v %x, want %v %x", costKey, h, body, plainHeader, plain)
				}
				continue
			}
			h.Flags &^= frame.FlagCompressed | frame.FlagBeta
			if h.Flags != frame.FlagCustomPayload|frame.FlagWarnings || h.Opcode != frame.OpResult {
				t.Fatalf("%v is answered by %v with flags %x", op, h.Opcode, h.Flags)
			}
			cur, plainCur := wire.NewCursor(body), wire.NewCursor(plain)
			p := frame.ConsumeResponsePrefix(&cur, h.Flags)
			frame.ConsumeResponsePrefix(&plainCur, plainHeader.Flags)
			checkCost(t, p.CustomPayload)
			if !slices.Equal(p.Warnings, []string{"careful"}) || !bytes.Equal(cur.Rest(), plainCur.Rest()) {
				t.Errorf("%v: the rest of the answer differs, or the warnings: %v", op, p.Warnings)
			}
		}
		c.works()
	})
}

// checkCost compares a payload with the cost of costly.
func checkCost(t *testing.T, payload map[string][]byte) {
	t.Helper()
	micros, err := strconv.Atoi(string(payload[microsecondsKey]))
	if err != nil || micros < 0 {
		t.Errorf("%s: %q", microsecondsKey, payload[microsecondsKey])
	}
	delete(payload, microsecondsKey)
	want := map[string]string{pathKey: "scan", rowsKey: "3", tombstonesKey: "2", partitionsKey: "1", commandsKey: "4",
		bytesKey: "500"}
	got := map[string]string{}
	for k, v := range payload {
		got[k] = string(v)
	}
	if !maps.Equal(got, want) {
		t.Errorf("payload %v, want %v", got, want)
	}
}

func TestErrorsHaveTheCostToo(t *testing.T) {
	_, addr := start(t, Options{Processor: costly()})
	for _, v := range []frame.Version{4, 5} {
		c := connect(t, addr, v)
		c.write(frame.OpQuery, 1, frame.FlagCustomPayload, withPayload(queryBody(v, "fail"), costKey))
		h, body := c.read()
		if h.Opcode != frame.OpError || h.Flags != frame.FlagCustomPayload {
			t.Fatalf("v%d: %v with flags %x", v, h.Opcode, h.Flags)
		}
		cur := wire.NewCursor(body)
		checkCost(t, frame.ConsumeResponsePrefix(&cur, h.Flags).CustomPayload)
		if e := frame.ConsumeError(&cur, v); e.Code != frame.CodeServerError || cur.Finish() != nil {
			t.Errorf("v%d: %v, %v", v, e, cur.Err())
		}
		c.query("fail") // on the same worker, perhaps
		if h, _ := c.query("fail"); h.Flags != 0 {
			t.Errorf("v%d: the next error has flags %x", v, h.Flags)
		}
	}
}

func TestMalformedCustomPayloadIsAProtocolError(t *testing.T) {
	_, addr := start(t, Options{Processor: costly()})
	c := connect(t, addr, frame.V3)
	c.write(frame.OpQuery, 1, frame.FlagCustomPayload, withPayload(queryBody(frame.V3, "SELECT"), costKey))
	if h, e := c.readError(); e.Code != frame.CodeProtocolError || h.Flags != 0 {
		t.Errorf("v3: %v with flags %x", e, h.Flags)
	}
	c = connect(t, addr, frame.V4)
	c.write(frame.OpQuery, 1, frame.FlagCustomPayload, []byte{0, 9, 0, 1})
	if h, e := c.readError(); e.Code != frame.CodeProtocolError || h.Flags != 0 {
		t.Errorf("v4: %v with flags %x", e, h.Flags)
	}
}

func TestReplicasAreShownByTheirAddresses(t *testing.T) {
	s, _ := start(t, Options{ReplicaAddress: func(id ring.NodeID) netip.Addr {
		if id == 9 {
			return netip.Addr{}
		}
		return netip.AddrFrom4([4]byte{127, 0, 0, byte(id)})
	}})
	if got := s.replicaNames([]ring.NodeID{2, 9}); got != "127.0.0.2, 0.0.0.0" {
		t.Error(got)
	}
}
