package azuretables

import (
	"encoding/base64"
	"strconv"
	"strings"

	"cqld/auth"
	"cqld/azuretables/entity"
	"cqld/azuretables/odata"
)

// query responds with a page of entities. The entities are appended to the body one by one, as they are read. Its body
// is begun before the first entity is known, so that no list is kept in memory.
func (c *call) query() error {
	q, err := parseQuery(&c.params, c.path.Resource, c.path.Table, c.grant, &c.server.limits)
	if err != nil {
		return err
	}
	ctx := c.context(c.spelled(c.path.Table))
	// A projection applies to the entities and to the metadata URL.
	ctx.Select, ctx.SelectText = q.Select, c.params.selected
	r := c.resp
	// The body begins before the query runs; an error discards it (response.failed).
	r.body = ctx.AppendListBegin(r.body)
	// An entity is valid only during the call of Each.
	q.Each = func(e *odata.Entity) { r.body = ctx.AppendListEntity(r.body, e) }
	page, err := c.runQuery(q)
	if err != nil {
		return err
	}
	r.body = ctx.AppendListEnd(r.body)
	// The headers come last, because they contain the continuation and the cost.
	r.found(c.level)
	r.page(page, c.request.Cost.Rows)
	return nil
}

// count responds with the number of entities that match (beyond Azure). After QueryTimeout the response contains the
// number so far and a continuation. The number is exact if there is no continuation.
func (c *call) count() error {
	q, err := parseQuery(&c.params, c.path.Resource, c.path.Table, c.grant, &c.server.limits)
	if err != nil {
		return err
	}
	// The entities themselves are neither returned nor decoded beyond what the filter needs.
	q.CountOnly = true
	page, err := c.runQuery(q)
	if err != nil {
		return err
	}
	r := c.resp
	r.status, r.contentType = 200, "text/plain;charset=utf-8"
	r.data()
	r.page(page, c.request.Cost.Rows)
	r.body = odata.AppendCount(r.body, page.Count)
	return nil
}

// runQuery runs a query. The throttles count the query before it runs, and its results after. Its errors are the
// service's, or busy.
func (c *call) runQuery(q *entity.Query) (*entity.Page, error) {
	// The throttle of partitions applies to a query that names its partition. Others count for the account only.
	table := ""
	partitionKey, one := onePartition(q.Filter)
	if one {
		table = c.path.Table
	}
	// One in advance, because the number of results is unknown.
	if err := c.server.rates.admit(c.account.name, table, partitionKey, 1); err != nil {
		return nil, err
	}
	// The query would read nothing, so existence and permission are checked here. A count without $top has no maximum,
	// and also a Top of zero.
	if q.Top == 0 && (!q.CountOnly || c.params.hasTop) { // $top=0
		if _, ok := c.server.o.Service.Exists(c.account.name, c.path.Table); !ok {
			return nil, odata.Of(odata.TableNotFound)
		}
		if err := c.authorized(auth.Select, c.path.Table); err != nil {
			return nil, err
		}
		return &entity.Page{Plan: entity.PointQuery}, nil
	}
	page, err := c.server.o.Service.Query(&c.request, c.account.name, c.path.Table, q)
	if err != nil {
		return nil, err
	}
	c.plan = planName(page.Plan)
	// The first entity has been counted. A result without entities charges nothing more.
	c.server.rates.charge(c.account.name, table, partitionKey, page.Count-1)
	return page, nil
}

// parseQuery parses the options of a query and restricts it to what a grant covers. The filter of the grant is added
// last, so onePartition sees only what the client wrote. Each option that Azure does not have is marked beyond Azure in
// its parser.
func parseQuery(p *params, resource odata.Resource, table string, g *grant, limits *Limits) (*entity.Query, error) {
	// Permission first: a client without it learns nothing about its options.
	if err := g.permits(readEntities(), table); err != nil {
		return nil, err
	}
	if p.unsupported {
		return nil, odata.Of(odata.NotImplemented)
	}
	q := &entity.Query{}
	// Absent options keep their zero value: no filter, all properties, ascending order, from the beginning.
	var err error
	if strings.TrimSpace(p.filter) != "" {
		if q.Filter, err = odata.ParseFilter(p.filter, &limits.Entity); err != nil {
			return nil, err
		}
	}
	if q.Select, err = odata.ParseSelect(p.selected, &limits.Entity); err != nil {
		return nil, err
	}
	if q.Top, err = p.pageSize(limits.PageEntities); err != nil {
		return nil, err
	}
	// A count has no page: it is unlimited unless $top is given, and ends with QueryTimeout.
	if resource == odata.EntityCount && !p.hasTop {
		q.Top = 0
	}
	if q.Order, err = parseOrder(p.orderBy, q.Filter); err != nil {
		return nil, err
	}
	if q.From, err = p.position(); err != nil {
		return nil, err
	}
	// The key range of a signature restricts every page.
	q.Filter = g.restrict(q.Filter)
	return q, nil
}

// pageSize parses $top, which is at most the given number of entities; that is also the default. Zero requests an empty
// page. most is Limits.PageEntities.
func (p *params) pageSize(most int) (int, error) {
	if !p.hasTop {
		return most, nil
	}
	n, err := strconv.Atoi(p.top)
	// The service refuses a $top above its maximum, and does not reduce it.
	if err != nil || n < 0 || n > most {
		return 0, odata.Of(odata.InvalidInput)
	}
	return n, nil
}

// parseOrder parses $orderby: RowKey within one partition (beyond Azure, which refuses it). Azure returns entities in
// ascending order only.
func parseOrder(orderBy string, filter odata.Expr) (entity.Order, error) {
	order := entity.Ascending
	if orderBy == "" {
		return order, nil
	}
	// The default direction is ascending, with or without "asc".
	words := strings.Fields(orderBy)
	switch {
	case len(words) == 2 && words[1] == "desc":
		order = entity.Descending
	case len(words) == 2 && words[1] != "asc", len(words) == 0, len(words) > 2:
		return 0, errOrder()
	}
	// A partition is sorted by RowKey, so the opposite order costs no sorting. Other orders would need it.
	if _, one := onePartition(filter); words[0] != "RowKey" || !one {
		return 0, errOrder()
	}
	return order, nil
}

// errOrder returns the error of an unsupported $orderby, which describes the supported form.
func errOrder() error {
	e := odata.Of(odata.InvalidInput)
	e.Message = "The query option $orderby is supported with RowKey alone, in a query whose $filter names one " +
		"PartitionKey."
	return e
}

// onePartition returns the partition key that a filter requires, if it requires one. It looks at the terms of a
// conjunction only. Two terms with different keys match nothing, so the first one suffices. It decides about the
// throttle and about $orderby.
func onePartition(filter odata.Expr) (string, bool) {
	switch x := filter.(type) {
	// An Or, a Not or another comparison does not name one partition.
	case *odata.And:
		if key, ok := onePartition(x.Left); ok {
			return key, true
		}
		return onePartition(x.Right)
	case *odata.Comparison:
		if x.Property == "PartitionKey" && x.Op == odata.Eq {
			return string(x.Value.Bytes), true
		}
	}
	return "", false
}

// planName returns the name of a plan in planHeader.
func planName(p entity.Plan) string {
	switch p {
	case entity.PointQuery:
		return "point"
	case entity.RowRangeScan:
		return "row-range-scan"
	case entity.PartitionRangeScan:
		return "partition-range-scan"
	}
	return "table-scan"
}

// charge returns the cost of a query in units of one point query: 1, and a twentieth for each row read. The unit is
// cqld's own; the header x-ms-request-charge is known to clients of Cosmos DB. For example "1.05" for one row.
func charge(scanned int) string {
	// Integer arithmetic, so that the result has exactly two decimals.
	hundredths := 100 + 5*scanned
	out := strconv.AppendInt(nil, int64(hundredths/100), 10)
	return string(append(out, '.', byte('0'+hundredths/10%10), byte('0'+hundredths%10)))
}

// continuation encodes a key for a continuation token: 1!length!base64, in characters that URLs allow. The form is the
// service's, but a token is valid only here. Clients treat it as opaque.
func continuation(key string) string {
	encoded := tokenEncoding().EncodeToString([]byte(key))
	// "=" would have to be escaped in URLs.
	encoded = strings.ReplaceAll(encoded, "=", "-")
	return "1!" + strconv.Itoa(len(encoded)) + "!" + encoded
}

// parseContinuation parses such a token. Any other string is InvalidInput. The length protects against truncated
// tokens. The version 1 is the only one.
func parseContinuation(token string) (string, error) {
	rest, ok := strings.CutPrefix(token, "1!")
	length, encoded, cut := strings.Cut(rest, "!")
	n, err := strconv.Atoi(length)
	// "=" would have been replaced, and base64 decoders ignore line breaks.
	if !ok || !cut || err != nil || n != len(encoded) || strings.ContainsAny(encoded, "=\r\n") {
		return "", odata.Of(odata.InvalidInput)
	}
	key, err := tokenEncoding().DecodeString(strings.ReplaceAll(encoded, "-", "="))
	if err != nil {
		return "", odata.Of(odata.InvalidInput)
	}
	return string(key), nil
}

// tokenEncoding returns base64 without the characters that are special in URLs. Strict refuses tokens with bits that no
// encoder sets, so a key has one token. * and _ take the places of + and /.
func tokenEncoding() *base64.Encoding {
	return base64.NewEncoding("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789*_").Strict()
}

// position returns the position at which a query continues. Nil means the beginning. The row key may be absent: a token
// may point at the beginning of a partition. The tokens come from response.proceed.
func (p *params) position() (*entity.Position, error) {
	if !p.hasPartition {
		// A row without its partition is no position.
		if p.hasRow {
			return nil, odata.Of(odata.InvalidInput)
		}
		return nil, nil
	}
	var at entity.Position
	var err error
	if at.PartitionKey, err = parseContinuation(p.nextPartition); err != nil {
		return nil, err
	}
	if p.hasRow && p.nextRow != "" {
		if at.RowKey, err = parseContinuation(p.nextRow); err != nil {
			return nil, err
		}
	}
	return &at, nil
}
