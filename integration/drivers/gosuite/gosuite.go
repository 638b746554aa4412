package gosuite

import (
	"fmt"
	"os"
	"reflect"
	"strconv"
	"strings"
)

// Settings are read from the environment; see ../README.md.
type Settings struct {
	Points   []string
	DC       string
	Nodes    int
	RF       int
	Keyspace string
	// User and Password are the credentials. An empty user means that the server requires none.
	User, Password string
	// NoRetries makes the driver fail a request instead of repeating it.
	NoRetries bool
}

// Statement is one statement of a batch.
type Statement struct {
	Text string
	Args []any
}

// Session contains the driver's operations that the checks use. All requests use QUORUM.
type Session interface {
	Exec(text string, args ...any) error
	// Row reads the only row, with columns by name.
	Row(text string, args ...any) (map[string]any, error)
	// Rows reads all rows, each as pointers to the values of its columns.
	Rows(text string) ([][]any, error)
	// Ints reads the first column of one page, or of all pages when size is zero and the driver pages by itself.
	Ints(size int, state []byte, text string) (values []int, next []byte, err error)
	// AllInts reads the first column of all rows in pages of size.
	AllInts(size int, text string) ([]int, error)
	Batch(logged bool, statements []Statement) error
	// CAS executes a conditional statement and returns the existing row if it is not applied.
	CAS(text string, args ...any) (applied bool, row map[string]any, err error)
	BatchCAS(statements []Statement) (applied bool, err error)
	Named(name string, value any) any
	// Ring returns the numbers of nodes and tokens that the driver knows.
	Ring() (nodes, tokens int)
	// Table returns column name → "kind type order" of a table's metadata, or nil if the driver does not know the
	// table.
	Table(keyspace, table string) map[string]string
	Agree() error
	// Trace executes the statement with tracing and returns the trace as text.
	Trace(text string) (string, error)
	Close()
}

// Driver is one driver.
type Driver struct {
	Open         func(s Settings, compression string) (Session, error)
	Compressions []string
	Unset        any
	Duration     func(months, days int32, nanos int64) any
	UUID         func(text string) any
	Code         func(error) int // code of an ERROR message
}

// Main executes the program that the first argument names and returns the exit code.
func Main(d Driver) int {
	s := Settings{Points: strings.Split(os.Getenv("CQLD_CONTACT_POINTS"), ","),
		DC:    setting("CQLD_DATACENTER", "datacenter1"),
		Nodes: number("CQLD_NODES"), RF: number("CQLD_RF"), Keyspace: setting("CQLD_KEYSPACE", "drv_go"),
		User: os.Getenv("CQLD_USER"), Password: os.Getenv("CQLD_PASSWORD")}
	run := program(os.Args[1:])
	if run == nil {
		fmt.Fprintln(os.Stderr, usage)
		return 2
	}
	return run(d, s)
}

func setting(name, otherwise string) string {
	if v := os.Getenv(name); v != "" {
		return v
	}
	return otherwise
}

func number(name string) int {
	n, err := strconv.Atoi(setting(name, "1"))
	if err != nil {
		return -1
	}
	return n
}

func (s Settings) createKeyspace() string {
	return fmt.Sprintf("CREATE KEYSPACE %s WITH replication = {'class': 'SimpleStrategy', 'replication_factor': %d}",
		s.Keyspace, s.RF)
}

// same compares the printed values, so that a driver may choose its Go types.
func same(got, want any, what string) error {
	if g, w := text(got), text(want); g != w {
		return fmt.Errorf("%s: got %s, want %s", what, g, w)
	}
	return nil
}

func text(v any) string {
	if v == nil {
		return "nil"
	}
	r := reflect.ValueOf(v)
	if r.Kind() == reflect.Pointer {
		if r.IsNil() {
			return "nil"
		}
		if _, ok := v.(fmt.Stringer); !ok {
			return text(r.Elem().Interface())
		}
	}
	return fmt.Sprint(v)
}

func firstError(errs ...error) error {
	for _, e := range errs {
		if e != nil {
			return e
		}
	}
	return nil
}
