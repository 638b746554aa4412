package ctl

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// table is a table whose columns are as wide as their widest cell. The first row is the header. Rows may be shorter
// than the header. A table is built and printed once, by one goroutine:
//
//	--  Address    Load
//	UN  127.0.0.1  28.96 MiB
type table struct {
	// rows hold plain text; cells must not contain line breaks or tabs.
	rows [][]string
	// right may be shorter than the rows; columns without an element are left-aligned.
	right []bool // right-aligned columns
}

// newTable returns a table with a header. An empty header cell is allowed.
func newTable(header ...string) *table { return &table{rows: [][]string{header}} }

// alignRight right-aligns columns. Columns are counted from 0. It returns t for chaining.
func (t *table) alignRight(columns ...int) *table {
	for _, c := range columns {
		for len(t.right) <= c {
			t.right = append(t.right, false)
		}
		t.right[c] = true
	}
	return t
}

// row appends a row. More cells than the header has are printed without a name.
func (t *table) row(cells ...string) { t.rows = append(t.rows, cells) }

// print writes the table with two spaces between columns and no trailing spaces. It writes the table in one call, so
// that it is not mixed with other output. Characters that a terminal draws in two columns are counted as one.
func (t *table) print(w io.Writer) error {
	// Widths are in characters, not bytes: names may contain any.
	var width []int
	for _, row := range t.rows {
		for i, cell := range row {
			if i == len(width) {
				width = append(width, 0)
			}
			width[i] = max(width[i], utf8.RuneCountInString(cell))
		}
	}
	var b strings.Builder
	for _, row := range t.rows {
		var line strings.Builder
		for i, cell := range row {
			pad := strings.Repeat(" ", width[i]-utf8.RuneCountInString(cell))
			if i < len(t.right) && t.right[i] {
				cell = pad + cell
			} else {
				cell += pad
			}
			line.WriteString(cell + "  ")
		}
		// The last column would otherwise end in spaces.
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// printer writes lines and records the first error, after which it writes nothing. Callers return err once at the end,
// instead of checking each line.
type printer struct {
	w   io.Writer
	err error
}

// line writes a line, to which it adds the line break.
func (p *printer) line(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format+"\n", args...)
	}
}

// table writes t.
func (p *printer) table(t *table) {
	if p.err == nil {
		p.err = t.print(p.w)
	}
}

// size formats bytes like nodetool: 28.96 MiB. Units are powers of 1,024, and numbers below 1,024 have the unit bytes.
// The result is rounded to two digits.
func size(n int64) string {
	if n < 1<<10 {
		return fmt.Sprintf("%d bytes", n)
	}
	// The largest unit that is not more than n.
	for _, u := range []struct {
		shift uint
		name  string
	}{{40, "TiB"}, {30, "GiB"}, {20, "MiB"}} {
		if n >= 1<<u.shift {
			return fmt.Sprintf("%.2f %s", float64(n)/float64(int64(1)<<u.shift), u.name)
		}
	}
	return fmt.Sprintf("%.2f KiB", float64(n)/(1<<10))
}

// percent formats a fraction like nodetool. percent(0.333) is 33.3%.
func percent(share float64) string { return fmt.Sprintf("%.1f%%", 100*share) }

// host returns an address without its port. IPv6 addresses lose their brackets. host("127.0.0.1:7000") is 127.0.0.1,
// and host("[::1]:7000") is ::1.
func host(address string) string {
	i := strings.LastIndexByte(address, ':')
	if i < 0 {
		return address
	}
	// Only brackets around the whole address.
	return strings.Trim(address[:i], "[]")
}

// groups groups the values by key, in the order of first occurrence. Together, the lists hold every value once, and
// each list is in the order of all.
func groups[T any](all []T, key func(T) string) (names []string, by map[string][]T) {
	by = map[string][]T{}
	for _, v := range all {
		k := key(v)
		// There are few keys, so the list is searched.
		if !slices.Contains(names, k) {
			names = append(names, k)
		}
		by[k] = append(by[k], v)
	}
	return names, by
}

// counted returns a number with its noun, whose plural ends with s: "1 table", "2 tables".
func counted(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprint(n, " ", noun)
}
