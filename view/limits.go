package view

// Limits are the bounds of reads of views. Zero means the default.
type Limits struct {
	// Rows is the maximum number of rows in a page.
	Rows int
	// Bytes bounds the rows in a page. A page has at least one row unless it is the last.
	Bytes int
	// BasePage is the number of rows of the base table that are requested at a time.
	BasePage int
	// Examined is the number of rows of the base table after which a page ends although it is not full.
	Examined int
}

func (l Limits) withDefaults() Limits {
	if l.Rows == 0 {
		l.Rows = 10_000
	}
	if l.Bytes == 0 {
		l.Bytes = 4 << 20
	}
	// A page of the base table is read to its end, so its size bounds the rows that are read in vain.
	if l.BasePage == 0 {
		l.BasePage = 1_000
	}
	if l.Examined == 0 {
		l.Examined = 20_000
	}
	return l
}

// keyMax is the maximum size of a partition key in bytes. A row whose partition key in the view would be longer has
// no row there.
const keyMax = 65535
