//go:build integration

package integration

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// asDocumented are the differences that docs/differences.md describes: faults of Cassandra 5.0.9 and deliberate
// differences. Each matches as few statements as possible.
var asDocumented = []struct {
	name    string
	matches func(c *comparison) bool
}{
	{"ORDER BY and LIKE as filters", (*comparison).refusedFilter},
	{"exceptions of Java that cqld answers with INVALID", (*comparison).exception},
	{"quotation marks in where_clause", (*comparison).quotedWhere},
	{"a legacy index of a compact table misses rows", (*comparison).legacyOfCompact},
	{"a legacy index of a partition key fails beside clustering columns", (*comparison).legacyOfKey},
	{"pages of GROUP BY without clustering columns", (*comparison).groupPages},
	{"GROUP BY with DISTINCT has no pages", (*comparison).distinctGroups},
	{"GROUP BY fails because of a deleted range", (*comparison).groupFails},
	{"writes fail because of a view of an empty key", (*comparison).emptyKeyOfView},
	{"SASI misses empty texts", (*comparison).sasiMissesEmpty},
	{"SASI misses partitions of static columns only", (*comparison).sasiMissesStatic},
	{"SASI fails beside CONTAINS", (*comparison).sasiFails},
	{"SASI fails because of an empty range", (*comparison).sasiEmptyRange},
	{"SASI misses rows beside ranges of texts", (*comparison).sasiMissesTexts},
	{"SAI does not compare vectors in a partition", (*comparison).saiIgnoresVector},
	{"SASI does not evaluate CONTAINS", (*comparison).sasiContains},
	{"deletions of partitions in conditional batches of a compact table", (*comparison).batchOfCompact},
	{"ANN OF fails beside SASI or a legacy index", (*comparison).nearestBesideOther},
	{"names of types in hints", (*comparison).hintNames},
	{"conditions on one column in a random order", (*comparison).conditionsOfOneColumn},
	{"another view beside a view of an empty key", (*comparison).viewBesideEmptyKey},
	{"pages of a view after an empty partition key", (*comparison).pagesOfEmptyKey},
	{"ORDER BY a masked column that is not selected", (*comparison).orderByMask},
	{"SASI does not evaluate other restrictions", (*comparison).sasiIgnores},
	{"SAI misses rows beside CONTAINS on frozen collections", (*comparison).saiMissesElements},
	{"SAI misses empty texts of a descending clustering column", (*comparison).saiMissesEmpty},
	{"a second SAI index misses rows", (*comparison).secondIndex},
	{"ANN OF filters the nearest rows only", (*comparison).nearestFiltered},
	{"ANN OF misses rows of restricted static columns", (*comparison).nearestOfStatic},
	{"paging states are checked after the statement", (*comparison).refusedState},
	{"serial reads of several partitions in pages", (*comparison).serialPages},
	{"batches at NODE_LOCAL", (*comparison).nodeLocal},
	{"time-outs that cqld answers with INVALID", (*comparison).timedOut},
	{"unset collections that are selected", (*comparison).unsetSelected},
	{"messages of errors in JSON", (*comparison).jsonErrors},
}

// comparison is a statement whose answers differ.
type comparison struct {
	input, want, got string
	options          []string
	table            *comparedTable
}

// comparedTable contains the properties of a table on which the exclusions depend.
type comparedTable struct {
	definition string
	indexes    []comparedIndex
	deletes    bool     // some statement deleted rows
	empty      bool     // a statement wrote an empty text
	views      []string // statements that created a view
	masked     []string // columns with a mask
}

type comparedIndex struct {
	name, column, class string

	// An SAI index that was created on a table with another one, and an empty text or static columns.
	second bool
}

// emptyText matches a statement with an empty text as a literal or a bound value.
var emptyText = regexp.MustCompile(`(?m)[ (]''[,) ]|^\? .*\b0x( |$)`)

var (
	createdIndex = regexp.MustCompile(`CREATE (?:CUSTOM )?INDEX (?:IF NOT EXISTS )?(\w+) ON \w+ \((?:\w+\()?(\w+)\)?\)(?: USING '([^']*)')?`)
	changedMask  = regexp.MustCompile(`ALTER TABLE \w+ ALTER (\w+) (MASKED|DROP MASKED)`)
	droppedIndex = regexp.MustCompile(`DROP INDEX (?:IF EXISTS )?(\w+)`)
)

// executed records a statement that both executed in the same way.
func (t *comparedTable) executed(input, answer string) {
	switch m, d, a := createdIndex.FindStringSubmatch(input), droppedIndex.FindStringSubmatch(input),
		changedMask.FindStringSubmatch(input); {
	case m != nil && strings.Contains(answer, "updated table"):
		class := "legacy"
		if c := strings.ToLower(m[3]); strings.Contains(c, "sasi") {
			class = "SASI"
		} else if strings.HasSuffix(c, "sai") || strings.HasSuffix(c, "storageattachedindex") {
			class = "SAI"
		}
		second := class == "SAI" && (t.empty || strings.Contains(t.definition, " static")) &&
			slices.ContainsFunc(t.indexes, func(ix comparedIndex) bool { return ix.class == class })
		t.indexes = append(t.indexes, comparedIndex{m[1], m[2], class, second})
	case d != nil && strings.Contains(answer, "updated table"):
		t.indexes = slices.DeleteFunc(t.indexes, func(ix comparedIndex) bool { return ix.name == d[1] })
	case a != nil && strings.Contains(answer, "updated table"):
		t.masked = slices.DeleteFunc(t.masked, func(name string) bool { return name == a[1] })
		if a[2] == "MASKED" {
			t.masked = append(t.masked, a[1])
		}
	case strings.Contains(input, "CREATE MATERIALIZED VIEW") && strings.Contains(answer, "created table"):
		t.views = append(t.views, input)
	case strings.Contains(input, "CREATE TABLE"):
		t.definition = input
	}
	t.deletes = t.deletes || strings.Contains(input, "DELETE FROM ")
	t.empty = t.empty || !strings.Contains(input, "SELECT ") && emptyText.MatchString(input)
}

// relation matches a relation of a generated WHERE on one column: the column, and what follows.
var relation = regexp.MustCompile(`(?:WHERE|AND) \(?(\w+)(?:\[[^\]]*\])?(?:, \w+)*\)? (CONTAINS KEY|CONTAINS|LIKE|IN|=|<=|>=|<|>) (\('[^)]*\)|'(?:[^']|'')*'|[^ ;]*)`)

// restricts reports whether WHERE has a relation that satisfies a condition.
func (c *comparison) restricts(condition func(column, operator, value string) bool) bool {
	_, where, _ := strings.Cut(c.input, " WHERE ")
	return slices.ContainsFunc(relation.FindAllStringSubmatch("WHERE "+where, -1),
		func(m []string) bool { return condition(m[1], m[2], m[3]) })
}

func (c *comparison) hasIndex(column, class string) bool {
	return slices.ContainsFunc(c.table.indexes, func(ix comparedIndex) bool {
		return ix.column == column &&
			ix.class == class
	})
}

// restrictsIndexed reports whether WHERE restricts a column with an index of a class, whose name begins with prefix.
func (c *comparison) restrictsIndexed(class, prefix string) bool {
	return c.restricts(func(column, _, _ string) bool {
		return strings.HasPrefix(column, prefix) &&
			c.hasIndex(column, class)
	})
}

// collection reports whether a column is a frozen collection.
func (c *comparison) collection(column string) bool {
	return strings.Contains(c.table.definition, " "+column+" frozen<list<") ||
		strings.Contains(c.table.definition, " "+column+" frozen<set<") ||
		strings.Contains(c.table.definition, " "+column+" frozen<map<")
}

// lacks reports whether the rows of a are some of those of b, or a smaller count.
func lacks(a, b string) bool {
	some, all := rowsOf(a), rowsOf(b)
	if !strings.Contains(a, " rows)") || !strings.Contains(b, " rows)") {
		return false
	}
	if strings.Contains(a, "count bigint") && len(some) == 1 && len(all) == 1 {
		n, err := strconv.Atoi(strings.TrimSpace(some[0]))
		m, err2 := strconv.Atoi(strings.TrimSpace(all[0]))
		return err == nil && err2 == nil && n < m
	}
	for _, r := range some {
		i := slices.Index(all, r)
		if i < 0 {
			return false
		}
		all = slices.Delete(all, i, i+1)
	}
	return true
}

// limited reports whether an answer has as many rows as LIMIT allows, so that another answer may have other rows.
func (c *comparison) limited(answer string) bool {
	_, limit, ok := strings.Cut(c.input, " LIMIT ")
	limit, _, _ = strings.Cut(strings.TrimSuffix(limit, ";"), " ")
	n, err := strconv.Atoi(limit)
	return ok && err == nil && len(rowsOf(answer)) == n
}

// refusedFilter reports whether Cassandra refuses the statement, and cqld executes it.
func (c *comparison) refusedFilter() bool {
	if !strings.HasPrefix(c.want, "INVALID: ") || !strings.Contains(c.input, "ALLOW FILTERING") {
		return false
	}
	return strings.HasPrefix(c.want, "INVALID: LIKE restriction is only supported on properly indexed columns.") ||
		strings.Contains(c.input, " LIKE '%") && strings.Contains(c.want,
			" is only supported on properly indexed columns") ||
		strings.HasPrefix(c.want, "INVALID: ORDER BY with 2ndary indexes is not supported") ||
		strings.HasPrefix(c.want, "INVALID: ORDER BY is only supported when the partition key is restricted")
}

// exception matches a statement that fails in Cassandra with an exception of Java.
func (c *comparison) exception() bool {
	return strings.HasPrefix(c.want, "SERVER_ERROR: ") && strings.HasPrefix(c.got, "INVALID: ")
}

// failed reports whether Cassandra could not read the first page or a later one.
func (c *comparison) failed() bool {
	return strings.Contains("\n"+c.want, "\nREAD_FAILURE: ") && strings.Contains(c.got, " rows)")
}

// quotedWhere matches the text of a view whose WHERE has a quotation mark, which only cqld doubles.
func (c *comparison) quotedWhere() bool {
	plain := func(s string) string { return strings.ReplaceAll(s, "''", "'") }
	return (strings.Contains(c.input, "DESCRIBE ") || strings.Contains(c.input, "where_clause")) &&
		plain(c.want) == plain(c.got)
}

// groupFails matches a GROUP BY with LIMIT or pages on a table from which rows were deleted, perhaps as a range.
func (c *comparison) groupFails() bool {
	return c.failed() && c.table.deletes && strings.Contains(c.input, " GROUP BY ") &&
		(c.paged() || strings.Contains(c.input, " LIMIT "))
}

// emptyKeyOfView matches a write to a table with a view whose WHERE has an empty partition key.
func (c *comparison) emptyKeyOfView() bool {
	return strings.HasPrefix(c.want, "WRITE_FAILURE: ") && c.table.viewOfEmptyKey()
}

// viewBesideEmptyKey matches the creation of another view of such a table.
func (c *comparison) viewBesideEmptyKey() bool {
	return c.want == "INVALID: Key may not be empty\n" && strings.HasPrefix(c.got, "created table ") &&
		strings.Contains(c.input, "CREATE MATERIALIZED VIEW ") && c.table.viewOfEmptyKey()
}

func (t *comparedTable) viewOfEmptyKey() bool {
	return slices.ContainsFunc(t.views, func(v string) bool { return strings.Contains(v, "p0 = ''") })
}

// orderByMask matches a SELECT of several partitions in the order of a column that has a mask and is not selected.
// Cassandra takes the column's value from another place of the row if the selected expressions are more or fewer than
// their columns.
func (c *comparison) orderByMask() bool {
	selected, rest, _ := strings.Cut(c.input, " FROM ")
	_, order, _ := strings.Cut(rest, " ORDER BY ")
	_, selected, _ = strings.Cut(selected, "SELECT ")
	named := func(text, column string) bool { return slices.Contains(names.FindAllString(text, -1), column) }
	masked := slices.ContainsFunc(c.table.masked,
		func(column string) bool { return named(order, column) && !named(selected, column) })
	if !masked || !strings.Contains(rest, " IN (") || expressions(selected) == c.table.columnsIn(selected) {
		return false
	}
	if strings.HasPrefix(c.want, "SERVER_ERROR: java.lang.IndexOutOfBoundsException: ") {
		return strings.Contains(c.got, " rows)")
	}
	sorted := func(answer string) []string { return slices.Sorted(slices.Values(rowsOf(answer))) }
	return slices.Equal(sorted(c.want), sorted(c.got)) || c.limited(c.want) && c.limited(c.got)
}

// expressions returns the number of selected expressions.
func expressions(selected string) int {
	n, depth := 1, 0
	for _, r := range selected {
		switch {
		case strings.ContainsRune("([{", r):
			depth++
		case strings.ContainsRune(")]}", r):
			depth--
		case r == ',' && depth == 0:
			n++
		}
	}
	return n
}

// columnsIn returns how many different columns of the table occur in a text.
func (t *comparedTable) columnsIn(text string) int {
	found := map[string]bool{}
	for _, name := range names.FindAllString(text, -1) {
		if strings.Contains(t.definition, "("+name+" ") || strings.Contains(t.definition, ", "+name+" ") {
			found[name] = true
		}
	}
	return len(found)
}

// names matches the names in a text.
var names = regexp.MustCompile(`\w+`)

// sasiMissesEmpty matches =, IN or a range with an empty text on a column with a SASI index, or a range on a descending
// clustering column that has an empty text in every missing row.
func (c *comparison) sasiMissesEmpty() bool {
	bound := strings.HasPrefix(c.input, "? ") && emptyText.MatchString(c.input)
	return lacks(c.want, c.got) && c.restricts(func(column, operator, value string) bool {
		empty := strings.Contains(value, "''") || bound && strings.Contains(value, "?") || c.lacksEmpty(column)
		return empty && (operator == "=" || operator == "IN" || operator == "<=" || operator == ">=" ||
			operator == "<") && c.hasIndex(column, "SASI")
	})
}

// sasiMissesStatic matches restricted static columns with a SASI index.
func (c *comparison) sasiMissesStatic() bool {
	return lacks(c.want, c.got) && c.restrictsIndexed("SASI", "s")
}

// sasiFails matches a restricted column with a SASI index beside CONTAINS on a collection that is not frozen.
func (c *comparison) sasiFails() bool {
	return c.failed() && c.restrictsIndexed("SASI", "") &&
		c.restricts(func(column, operator, _ string) bool { return strings.HasPrefix(operator, "CONTAINS") })
}

// sasiContains matches CONTAINS on a frozen collection with a SASI index.
func (c *comparison) sasiContains() bool {
	return strings.HasPrefix(c.want, "SERVER_ERROR: java.lang.IllegalArgumentException: unknown operator: CONTAINS") &&
		strings.Contains(c.got, " rows)") &&
		c.restricts(func(column, operator, _ string) bool {
			return strings.HasPrefix(operator, "CONTAINS") && c.hasIndex(column, "SASI")
		})
}

// conditionsOfOneColumn matches a batch with several conditions on one column if one condition compares with null. The
// servers evaluate the conditions in different orders, so that only one of them meets the null.
func (c *comparison) conditionsOfOneColumn() bool {
	refused := func(answer string) bool {
		return strings.HasPrefix(answer, "INVALID: Invalid comparison with null for operator ") ||
			strings.HasPrefix(answer, "INVALID: Invalid comparison with an empty ")
	}
	if !strings.Contains(c.input, "BEGIN BATCH") || refused(c.want) == refused(c.got) ||
		!strings.HasPrefix(c.want, "[applied]") && !strings.HasPrefix(c.got, "[applied]") {
		return false
	}
	seen := map[string]bool{}
	for _, m := range conditionColumn.FindAllStringSubmatch(c.input, -1) {
		if seen[m[1]] {
			return true
		}
		seen[m[1]] = true
	}
	return false
}

// batchOfCompact matches a conditional batch that deletes the whole row of a compact table without clustering columns.
func (c *comparison) batchOfCompact() bool {
	return c.want == "SERVER_ERROR: java.util.NoSuchElementException\n" && strings.HasPrefix(c.got, "[applied]") &&
		strings.Contains(c.input, " BATCH ") && strings.Contains(c.input, "DELETE FROM ") &&
		strings.Contains(c.table.definition, "PRIMARY KEY ((p0)))") &&
		strings.Contains(c.table.definition, "COMPACT STORAGE")
}

// hintNames matches answers that differ in the keyspace of a type in a type hint.
func (c *comparison) hintNames() bool {
	return strings.Contains(c.input, "_u)") && qualifiedType.ReplaceAllString(c.want, "($1)") == c.got
}

// qualifiedType matches a type hint with the keyspace of a generated type.
var qualifiedType = regexp.MustCompile(`\(\w+\.(\w+_u)\)`)

// conditionColumn matches a condition of a generated statement.
var conditionColumn = regexp.MustCompile(` IF ([sv]\d)\b`)

// nearestBesideOther matches ANN OF beside a restricted column with a SASI or legacy index.
func (c *comparison) nearestBesideOther() bool {
	return c.want == "SERVER_ERROR: java.lang.AssertionError\n" && strings.Contains(c.got, " rows)") &&
		strings.Contains(c.input, " ANN OF ") &&
		(c.restrictsIndexed("SASI", "") || c.restrictsIndexed("legacy", ""))
}

// ofView matches a SELECT of a generated view.
var ofView = regexp.MustCompile(`SELECT .* FROM \w+_w\d+\b`)

// nullKey matches the last page of an answer that is a NullPointerException.
var nullKey = regexp.MustCompile(`-- next page\nSERVER_ERROR: java\.lang\.NullPointerException(: Cannot invoke ` +
	`"java\.nio\.ByteBuffer\.position\(\)" because "key" is null)?\n$`)

// pagesOfEmptyKey matches a page of a view after one that ends in a partition with an empty key, which only views have.
func (c *comparison) pagesOfEmptyKey() bool {
	at := nullKey.FindStringIndex(c.want)
	return at != nil && c.table.empty && ofView.MatchString(c.input) && strings.HasPrefix(c.got, c.want[:at[0]])
}

// sasiIgnores matches a restricted column with a SASI index beside a partition key that filters, or CONTAINS on a
// frozen collection.
func (c *comparison) sasiIgnores() bool {
	other := c.restricts(func(column, operator, _ string) bool {
		return strings.HasPrefix(column, "p") || strings.HasPrefix(operator, "CONTAINS") && c.collection(column)
	})
	return other && c.restrictsIndexed("SASI", "") && strings.Contains(c.input, "ALLOW FILTERING") &&
		(lacks(c.got, c.want) || c.limited(c.want))
}

// saiMissesElements matches a restricted column with an SAI index beside CONTAINS on a frozen collection.
func (c *comparison) saiMissesElements() bool {
	return lacks(c.want, c.got) && strings.Contains(c.input, "ALLOW FILTERING") && c.restrictsIndexed("SAI", "") &&
		c.restricts(func(column, operator, _ string) bool {
			return strings.HasPrefix(operator, "CONTAINS") && c.collection(column)
		})
}

// secondIndex matches a restricted column, or a vector of ANN OF, with an SAI index that was created on a table with
// another SAI index and an empty text or static columns. If some rows are missed, LIMIT chooses other nearest rows.
func (c *comparison) secondIndex() bool {
	second := func(column, _, _ string) bool {
		return slices.ContainsFunc(c.table.indexes, func(ix comparedIndex) bool {
			return ix.column == column &&
				ix.second
		})
	}
	if m := nearestTo.FindStringSubmatch(c.input); m != nil && second(m[1], "", "") && c.limited(c.got) {
		return true
	}
	return lacks(c.want, c.got) && c.restricts(second)
}

// nearestTo matches the vector of ANN OF.
var nearestTo = regexp.MustCompile(` ORDER BY (\w+) ANN OF `)

// nearestFiltered matches ANN OF with ALLOW FILTERING.
func (c *comparison) nearestFiltered() bool {
	return strings.Contains(c.input, " ANN OF ") && strings.Contains(c.input, "ALLOW FILTERING") && lacks(c.want, c.got)
}

// nearestOfStatic matches ANN OF with a restricted static column.
func (c *comparison) nearestOfStatic() bool {
	static := c.restricts(func(column, _, _ string) bool { return strings.HasPrefix(column, "s") })
	return strings.Contains(c.input, " ANN OF ") && static && lacks(c.want, c.got)
}
