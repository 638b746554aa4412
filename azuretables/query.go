package azuretables

import (
	"encoding/base64"
	"strconv"
	"strings"

	"cqld/auth"
	"cqld/azuretables/entity"
	"cqld/azuretables/odata"
)

// query responds with a page of entities.
func (c *call) query() error {
	q, err := parseQuery(&c.params, c.path.Resource, c.path.Table, c.grant, &c.server.limits)
	if err != nil {
		return err
	}
	ctx := c.context(c.spelled(c.path.Table))
	ctx.Select, ctx.SelectText = q.Select, c.params.selected
	r := c.resp
	r.body = ctx.AppendListBegin(r.body)
	q.Each = func(e *odata.Entity) { r.body = ctx.AppendListEntity(r.body, e) }
	page, err := c.runQuery(q)
	if err != nil {
		return err
	}
	r.body = ctx.AppendListEnd(r.body)
	r.found(c.level)
	r.page(page, c.request.Cost.Rows)
	return nil
}

// count responds with the number of entities that match (beyond Azure). After QueryTimeout the response contains the
// number so far and a continuation.
func (c *call) count() error {
	q, err := parseQuery(&c.params, c.path.Resource, c.path.Table, c.grant, &c.server.limits)
	if err != nil {
		return err
	}
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

// runQuery runs a query. The throttles count the query before it runs, and its results after.
func (c *call) runQuery(q *entity.Query) (*entity.Page, error) {
	table := ""
	partitionKey, one := onePartition(q.Filter)
	if one {
		table = c.path.Table
	}
	if err := c.server.rates.admit(c.account.name, table, partitionKey, 1); err != nil {
		return nil, err
	}
	if q.Top == 0 && !q.CountOnly { // $top=0
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
	c.server.rates.charge(c.account.name, table, partitionKey, page.Count-1)
	return page, nil
}

// parseQuery parses the options of a query and restricts it to what a grant covers.
func parseQuery(p *params, resource odata.Resource, table string, g *grant, limits *Limits) (*entity.Query, error) {
	if err := g.permits(readEntities(), table); err != nil {
		return nil, err
	}
	if p.unsupported {
		return nil, odata.Of(odata.NotImplemented)
	}
	q := &entity.Query{}
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
	if resource == odata.EntityCount && !p.hasTop {
		q.Top = 0
	}
	if q.Order, err = parseOrder(p.orderBy, q.Filter); err != nil {
		return nil, err
	}
	if q.From, err = p.position(); err != nil {
		return nil, err
	}
	q.Filter = g.restrict(q.Filter)
	return q, nil
}

// pageSize parses $top, which is at most the given number of entities; that is also the default. Zero requests an empty
// page.
func (p *params) pageSize(most int) (int, error) {
	if !p.hasTop {
		return most, nil
	}
	n, err := strconv.Atoi(p.top)
	if err != nil || n < 0 || n > most {
		return 0, odata.Of(odata.InvalidInput)
	}
	return n, nil
}

// parseOrder parses $orderby: RowKey within one partition (beyond Azure, which refuses it).
func parseOrder(orderBy string, filter odata.Expr) (entity.Order, error) {
	order := entity.Ascending
	if orderBy == "" {
		return order, nil
	}
	words := strings.Fields(orderBy)
	switch {
	case len(words) == 2 && words[1] == "desc":
		order = entity.Descending
	case len(words) == 2 && words[1] != "asc", len(words) == 0, len(words) > 2:
		return 0, errOrder()
	}
	if _, one := onePartition(filter); words[0] != "RowKey" || !one {
		return 0, errOrder()
	}
	return order, nil
}

func errOrder() error {
	e := odata.Of(odata.InvalidInput)
	e.Message = "The query option $orderby is supported with RowKey alone, in a query whose $filter names one " +
		"PartitionKey."
	return e
}

// onePartition returns the partition key that a filter requires, if it requires one.
func onePartition(filter odata.Expr) (string, bool) {
	switch x := filter.(type) {
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

// charge returns the cost of a query in units of one point query: 1, and a twentieth for each row read.
func charge(scanned int) string {
	hundredths := 100 + 5*scanned
	out := strconv.AppendInt(nil, int64(hundredths/100), 10)
	return string(append(out, '.', byte('0'+hundredths/10%10), byte('0'+hundredths%10)))
}

// continuation encodes a key for a continuation token: 1!length!base64, in characters that URLs allow.
func continuation(key string) string {
	encoded := tokenEncoding().EncodeToString([]byte(key))
	encoded = strings.ReplaceAll(encoded, "=", "-")
	return "1!" + strconv.Itoa(len(encoded)) + "!" + encoded
}

// parseContinuation parses such a token. Any other string is InvalidInput.
func parseContinuation(token string) (string, error) {
	rest, ok := strings.CutPrefix(token, "1!")
	length, encoded, cut := strings.Cut(rest, "!")
	n, err := strconv.Atoi(length)
	if !ok || !cut || err != nil || n != len(encoded) || strings.ContainsAny(encoded, "=\r\n") {
		return "", odata.Of(odata.InvalidInput)
	}
	key, err := tokenEncoding().DecodeString(strings.ReplaceAll(encoded, "-", "="))
	if err != nil {
		return "", odata.Of(odata.InvalidInput)
	}
	return string(key), nil
}

// tokenEncoding returns base64 without the characters that are special in URLs.
func tokenEncoding() *base64.Encoding {
	return base64.NewEncoding("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789*_").Strict()
}

// position returns the position at which a query continues.
func (p *params) position() (*entity.Position, error) {
	if !p.hasPartition {
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
