package simulation

import (
	"strings"
	"testing"
)

type lists = map[string][]int64

// txn is a transaction at a moment of its own.
func txn(at int64, reads, appends lists) *appendTxn {
	return &appendTxn{reads: reads, appends: appends, call: 2 * at, returned: 2*at + 1}
}

// at is a transaction that was under way all the time.
func during(reads, appends lists) *appendTxn {
	return &appendTxn{reads: reads, appends: appends, call: 1, returned: 1000}
}

func TestAppendCheckerFindsWhatIsWrong(t *testing.T) {
	failed := during(nil, lists{"x": {1}})
	failed.failed, failed.returned = true, 0
	open := during(nil, lists{"x": {1}})
	open.returned = 0
	for _, c := range []struct {
		name string
		want string // the beginning of the anomaly; empty: there is none
		txns []*appendTxn
	}{
		{"a good history", "", []*appendTxn{
			txn(1, lists{"x": {}}, lists{"x": {1}}), txn(2, lists{"x": {1}}, lists{"x": {2, 3}}), txn(3, lists{"x": {1, 2, 3}}, nil),
		}},
		{"an unknown one that took effect", "", []*appendTxn{open, txn(9, lists{"x": {1}}, nil)}},
		{"an unknown one that did not", "", []*appendTxn{open, txn(9, lists{"x": {}}, nil)}},
		{"a failed one that took effect", "G1a", []*appendTxn{failed, txn(9, lists{"x": {1}}, nil)}},
		{"half of a transaction", "G1b", []*appendTxn{during(nil, lists{"x": {1, 2}}), during(lists{"x": {1}}, nil)}},
		{"appended twice", "duplicates", []*appendTxn{during(nil, lists{"x": {1}}), during(lists{"x": {1, 1}}, nil)}},
		{"two orders", "incompatible order", []*appendTxn{
			during(nil, lists{"x": {1}}), during(nil, lists{"x": {2}}), during(lists{"x": {1, 2}}, nil), during(lists{"x": {2, 1}}, nil),
		}},
		{"out of nothing", "transaction 0 read 7", []*appendTxn{during(lists{"x": {7}}, nil)}},
		{"writes in a circle", "G0", []*appendTxn{
			during(nil, lists{"x": {1}, "y": {2}}), during(nil, lists{"x": {3}, "y": {4}}), during(lists{"x": {1, 3}, "y": {4, 2}}, nil),
		}},
		{"each read the other's", "G1c", []*appendTxn{
			during(lists{"y": {2}}, lists{"x": {1}}), during(lists{"x": {1}}, lists{"y": {2}}),
		}},
		{"read skew", "G-single", []*appendTxn{
			during(nil, lists{"x": {1}, "y": {2}}), during(lists{"x": {1}, "y": {}}, nil),
		}},
		{"a lost update", "lost update", []*appendTxn{
			during(lists{"x": {}}, lists{"x": {1}}), during(lists{"x": {}}, lists{"x": {2}}), during(lists{"x": {1, 2}}, nil),
		}},
		{"a stale read", "G-single in real time", []*appendTxn{
			txn(1, nil, lists{"x": {1}}), txn(2, lists{"x": {}}, nil), txn(3, lists{"x": {1}}, nil),
		}},
		{"an acknowledged append that vanished", "G-single in real time", []*appendTxn{
			txn(1, nil, lists{"x": {1}}), txn(2, lists{"x": {}}, nil),
		}},
		{"write skew", "G2", []*appendTxn{
			during(lists{"x": {}, "y": {}}, lists{"x": {1}}), during(lists{"x": {}, "y": {}}, lists{"y": {2}}),
		}},
	} {
		got := strings.Join(checkAppends(c.txns), "\n")
		if !strings.HasPrefix(got, c.want) || c.want == "" && got != "" {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
