package query

import (
	"errors"
	"runtime"
	"strings"
	"testing"

	"cqld/internal/memory"
	"cqld/ring"
)

// budget is the memory that a request of these tests may hold, in bytes.
const budget = 8 << 20

// bounded executes a statement with a memory account of budget bytes. It returns the error, and the bytes that were
// allocated meanwhile.
func bounded(t *testing.T, p *Processor, s *Session, text string, params *Params) (allocated int, err error) {
	t.Helper()
	pool := memory.New(memory.Options{Limits: memory.Limits{Bytes: 8 * budget, Reserve: budget}})
	var account memory.Account
	pool.Open(&account, memory.Origin{}, nil)
	defer account.Close()
	req := at(ring.One)
	req.Memory = &account
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err = p.Query(req, s, text, params)
	runtime.ReadMemStats(&after)
	return int(after.TotalAlloc - before.TotalAlloc), err
}

// TestResultsAreReservedBeforeTheyAreMade selects a value of 32 KiB three thousand times in one row. The request
// is refused before it has allocated the result, which would take 500 MiB while its buffer grows. Compilation of
// the operators takes most of the rest.
func TestResultsAreReservedBeforeTheyAreMade(t *testing.T) {
	v := []byte(strings.Repeat("v", 32<<10))
	for name, list := range map[string]string{
		"columns":   repeated("v", 3000),
		"maps":      repeated("m", 3000),
		"functions": repeated("v + v", 1500),
		"tuple":     "(" + repeated("v", 3000) + ")",
		"JSON":      "JSON " + repeated("v", 3000),
	} {
		t.Run(name, func(t *testing.T) {
			// Buffers of other processors have other sizes.
			p, s := newTestProcessor(t, &modelStore{}, "CREATE TABLE t (k int PRIMARY KEY, v text, m map<int, text>)")
			mustQuery(t, p, s, "UPDATE t SET v = ?, m[1] = ? WHERE k = 1", v, v)
			if _, err := bounded(t, p, s, "SELECT v, m, v + v FROM t WHERE k = 1", &Params{}); err != nil {
				t.Fatal(err)
			}
			n, err := bounded(t, p, s, "SELECT "+list+" FROM t WHERE k = 1", &Params{})
			checkRefused(t, n, 160<<20, err)
		})
	}
}

// repeated returns a list that has an element n times.
func repeated(element string, n int) string {
	return strings.TrimSuffix(strings.Repeat(element+", ", n), ", ")
}

// checkRefused checks that a request was refused by its account, and that n, the bytes allocated before, is at most
// most.
func checkRefused(t *testing.T, n, most int, err error) {
	t.Helper()
	if tooLarge := new(memory.TooLarge); !errors.As(err, &tooLarge) {
		t.Errorf("error %v, want one of the account", err)
	}
	if n > most {
		t.Errorf("%d bytes were allocated, want at most %d", n, most)
	}
}
