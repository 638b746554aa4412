package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
)

func (s *suite) tables() error {
	c, err := s.service(0)
	if err != nil {
		return err
	}
	var names []string
	for i := range 5 {
		names = append(names, fmt.Sprintf("%sList%d", s.prefix, i))
		other, err := s.service(i)
		if err != nil {
			return err
		}
		_, err = other.CreateTable(s.ctx, names[i], nil)
		s.same(err, nil, "create")
	}
	_, err = c.CreateTable(s.ctx, strings.ToUpper(names[0]), nil)
	s.fails(err, 409, "TableAlreadyExists", "create again")
	var got []string
	var sizes []int
	for p := c.NewListTablesPager(&aztables.ListTablesOptions{Filter: to.Ptr(fmt.Sprintf("TableName ge '%sList' and "+
		"TableName lt '%[1]sLisu'", s.prefix)), Top: to.Ptr(int32(2))}); p.More(); {
		page, err := p.NextPage(s.ctx)
		if err != nil {
			return err
		}
		for _, t := range page.Tables {
			got = append(got, *t.Name)
		}
		sizes = append(sizes, len(page.Tables))
	}
	s.same(got, names, "list")
	s.same(sizes, []int{2, 2, 1}, "pages")
	for name, code := range map[string]string{"1name": "InvalidResourceName", "a-b": "InvalidResourceName",
		"ab": "OutOfRangeInput", strings.Repeat("a", 64): "OutOfRangeInput"} {
		_, err = c.CreateTable(s.ctx, name, nil)
		s.fails(err, 400, code, "name %q", name)
	}
	for i, n := range names {
		other, err := s.service(i + 1)
		if err != nil {
			return err
		}
		_, err = other.DeleteTable(s.ctx, n, nil)
		s.same(err, nil, "delete")
	}
	_, err = c.DeleteTable(s.ctx, names[0], nil)
	s.fails(err, 404, "ResourceNotFound", "delete again")
	_, err = c.CreateTable(s.ctx, names[0], nil)
	s.same(err, nil, "a name used again")
	return nil
}

func (s *suite) types() error {
	c, err := s.fresh("Types")
	if err != nil {
		return err
	}
	other, err := s.table("Types", 1)
	if err != nil {
		return err
	}
	when := time.Date(2021, 5, 26, 15, 48, 7, 45444800, time.UTC)
	values := props{
		"text": "Grüße 世界 𝄞", "empty": "", "number": int32(math.MaxInt32), "negative": int32(math.MinInt32),
		"yes": true, "no": false, "ratio": 3.1, "tiny": 5e-324,
		"large": aztables.EDMInt64(math.MaxInt64), "small": aztables.EDMInt64(math.MinInt64),
		"data": aztables.EDMBinary{0, 255, 1}, "no_data": aztables.EDMBinary{},
		"id": aztables.EDMGUID("c9da6455-213d-42c9-9a79-3e9149a57833"), "when": aztables.EDMDateTime(when),
		"old": aztables.EDMDateTime(time.Date(1601, 1, 1, 0, 0, 0, 0, time.UTC)),
	}
	made, err := c.AddEntity(s.ctx, entity("p", "r", values), nil)
	if err != nil {
		return err
	}
	got, etag, err := s.get(other, "p", "r")
	if err != nil {
		return err
	}
	s.same(etag, made.ETag, "etag of get")
	for name, v := range values {
		s.same(fmt.Sprintf("%T %v", got[name], got[name]), fmt.Sprintf("%T %v", v, v), "%s", name)
	}
	for _, format := range []aztables.MetadataFormat{aztables.MetadataFormatNone, aztables.MetadataFormatMinimal,
		aztables.MetadataFormatFull} {
		r, err := c.GetEntity(s.ctx, "p", "r", &aztables.GetEntityOptions{Format: &format})
		if err != nil {
			return err
		}
		s.same(strings.Contains(string(r.Value), `"large@odata.type":"Edm.Int64"`),
			format != aztables.MetadataFormatNone, "type annotations with %s", format)
		s.same(strings.Contains(string(r.Value), `"odata.editLink"`), format == aztables.MetadataFormatFull,
			"links with %s", format)
	}
	// An EDMEntity doubles quotes in the body, too, and an empty key cannot be requested: these are properties of the
	// SDK.
	for _, k := range []string{"it's", "a b", "ü%&+"} {
		b, err := json.Marshal(props{"PartitionKey": k, "RowKey": k, "v": k})
		if err != nil {
			return err
		}
		_, err = c.AddEntity(s.ctx, b, nil)
		s.same(err, nil, "insert of key %q", k)
		got, _, err := s.get(other, k, k)
		s.same(fmt.Sprint(got["v"], err), k+"<nil>", "get of key %q", k)
	}
	big := func(n, size int) props {
		p := props{}
		for i := range n {
			p[fmt.Sprint("p", i)] = strings.Repeat("x", size)
		}
		return p
	}
	for what, c1 := range map[string]struct {
		e    []byte
		code string
	}{
		"a bad key":      {entity("a/b", "r", nil), "OutOfRangeInput"},
		"a long key":     {entity(strings.Repeat("k", 513), "r", nil), "KeyValueTooLarge"},
		"a long name":    {entity("x", "y", props{strings.Repeat("n", 256): true}), "PropertyNameTooLong"},
		"a bad name":     {entity("x", "y", props{"a-b": true}), "PropertyNameInvalid"},
		"253 properties": {entity("x", "y", big(253, 1)), "TooManyProperties"},
		"a long text":    {entity("x", "y", big(1, 32769)), "PropertyValueTooLarge"},
		"a large entity": {entity("x", "y", big(17, 32768)), "EntityTooLarge"},
		"a bad Guid":     {entity("x", "y", props{"v": aztables.EDMGUID("x")}), "InvalidInput"},
	} {
		_, err := c.AddEntity(s.ctx, c1.e, nil)
		s.fails(err, 400, c1.code, "%s", what)
	}
	_, _, err = s.get(c, "x", "y")
	s.fails(err, 404, "ResourceNotFound", "nothing bad was kept")
	none, err := s.table("Nothing", 0)
	if err != nil {
		return err
	}
	_, err = none.AddEntity(s.ctx, entity("x", "y", nil), nil)
	s.fails(err, 404, "TableNotFound", "no table")
	return nil
}

func (s *suite) changes() error {
	c, err := s.fresh("Changes")
	if err != nil {
		return err
	}
	has := func(rk string, want props, what string) azcore.ETag {
		got, etag, err := s.get(c, "p", rk)
		s.same(fmt.Sprint(got, err), fmt.Sprint(want, nil), "%s", what)
		return etag
	}
	update := func(rk string, p props, mode aztables.UpdateMode, match *azcore.ETag) (azcore.ETag, error) {
		r, err := c.UpdateEntity(s.ctx, entity("p", rk, p),
			&aztables.UpdateEntityOptions{UpdateMode: mode, IfMatch: match})
		return r.ETag, err
	}
	if _, err := c.AddEntity(s.ctx, entity("p", "r", props{"a": int32(1), "b": int32(2)}), nil); err != nil {
		return err
	}
	_, err = c.AddEntity(s.ctx, entity("p", "r", nil), nil)
	s.fails(err, 409, "EntityAlreadyExists", "insert again")
	first := has("r", props{"a": 1, "b": 2}, "insert")
	second, err := update("r", props{"b": int32(3), "c": int32(4)}, aztables.UpdateModeMerge, nil)
	s.same(err, nil, "merge")
	s.same(has("r", props{"a": 1, "b": 3, "c": 4}, "merged"), second, "etag of merge")
	for _, mode := range []aztables.UpdateMode{aztables.UpdateModeMerge, aztables.UpdateModeReplace} {
		_, err = update("r", nil, mode, &first)
		s.fails(err, 412, "UpdateConditionNotSatisfied", "%s with an old etag", mode)
		_, err = update("none", nil, mode, nil)
		s.fails(err, 404, "ResourceNotFound", "%s of nothing", mode)
	}
	_, err = c.DeleteEntity(s.ctx, "p", "r", &aztables.DeleteEntityOptions{IfMatch: &first})
	s.fails(err, 412, "UpdateConditionNotSatisfied", "delete with an old etag")
	third, err := update("r", props{"d": int32(5)}, aztables.UpdateModeReplace, &second)
	s.same(err, nil, "replace")
	s.same(has("r", props{"d": 5}, "replaced"), third, "etag of replace")
	for _, u := range []struct {
		mode aztables.UpdateMode
		p    props
		want props
	}{{aztables.UpdateModeMerge, props{"a": int32(1)}, props{"a": 1}},
		{aztables.UpdateModeMerge, props{"b": int32(2)}, props{"a": 1, "b": 2}},
		{aztables.UpdateModeReplace, props{"c": int32(3)}, props{"c": 3}}} {
		_, err = c.UpsertEntity(s.ctx, entity("p", "new", u.p), &aztables.UpsertEntityOptions{UpdateMode: u.mode})
		s.same(err, nil, "upsert")
		has("new", u.want, "after upsert")
	}
	_, err = c.DeleteEntity(s.ctx, "p", "new", nil)
	s.same(err, nil, "delete")
	_, err = c.DeleteEntity(s.ctx, "p", "new", nil)
	s.fails(err, 404, "ResourceNotFound", "delete again")
	return nil
}

func (s *suite) transactions() error {
	c, err := s.fresh("Batch")
	if err != nil {
		return err
	}
	for _, rk := range []string{"merge", "replace", "delete"} {
		if _, err := c.AddEntity(s.ctx, entity("p", rk, props{"a": int32(1)}), nil); err != nil {
			return err
		}
	}
	act := func(kind aztables.TransactionType, rk string, p props) aztables.TransactionAction {
		return aztables.TransactionAction{ActionType: kind, Entity: entity("p", rk, p)}
	}
	add := func(rk string) aztables.TransactionAction { return act(aztables.TransactionTypeAdd, rk, nil) }
	_, err = c.SubmitTransaction(s.ctx, []aztables.TransactionAction{
		act(aztables.TransactionTypeAdd, "new", props{"v": int32(1)}),
		act(aztables.TransactionTypeUpdateMerge, "merge", props{"b": int32(2)}),
		act(aztables.TransactionTypeUpdateReplace, "replace", props{"c": int32(3)}),
		act(aztables.TransactionTypeDelete, "delete", nil),
		act(aztables.TransactionTypeInsertMerge, "upsert1", props{"d": int32(4)}),
		act(aztables.TransactionTypeInsertReplace, "upsert2", props{"e": int32(5)}),
	}, nil)
	s.same(err, nil, "a transaction of all kinds")
	all, _, err := s.list(c, nil)
	got := map[string]string{}
	for _, e := range all {
		got[e.RowKey] = fmt.Sprint(e.Properties)
	}
	s.same(fmt.Sprint(got, err), fmt.Sprint(map[string]string{"new": "map[v:1]", "merge": "map[a:1 b:2]",
		"replace": "map[c:3]", "upsert1": "map[d:4]", "upsert2": "map[e:5]"}, nil), "what is there")
	rows := func(n int, pk string) []aztables.TransactionAction {
		var out []aztables.TransactionAction
		for i := range n {
			out = append(out, aztables.TransactionAction{ActionType: aztables.TransactionTypeAdd,
				Entity: entity(pk, fmt.Sprintf("r%03d", i), props{"n": int32(i)})})
		}
		return out
	}
	_, err = c.SubmitTransaction(s.ctx, rows(100, "many"), nil)
	s.same(err, nil, "a hundred")
	// Without IfMatch an update is an upsert.
	old, none := act(aztables.TransactionTypeUpdateMerge, "new", nil),
		act(aztables.TransactionTypeUpdateMerge, "none", nil)
	old.IfMatch, none.IfMatch = to.Ptr(azcore.ETag(`W/"datetime'2001-01-01T00%3A00%3A00Z'"`)), to.Ptr(azcore.ETagAny)
	for what, t := range map[string]struct {
		actions []aztables.TransactionAction
		status  string
		code    string
	}{
		"insert of what is there": {[]aztables.TransactionAction{add("x"), add("new")}, "409 Conflict",
			"EntityAlreadyExists"},
		"update of nothing": {[]aztables.TransactionAction{add("x"), none}, "404 Not Found", "ResourceNotFound"},
		"an old etag": {[]aztables.TransactionAction{add("x"), old}, "412 Precondition Failed",
			"UpdateConditionNotSatisfied"},
		"a row twice": {[]aztables.TransactionAction{add("x"),
			act(aztables.TransactionTypeInsertMerge, "x", nil)}, "400 Bad Request", "InvalidDuplicateRow"},
		"101 operations": {rows(101, "more"), "400 Bad Request", "InvalidInput"},
		"another partition": {append([]aztables.TransactionAction{add("x")}, rows(1, "q")...), "400 Bad Request",
			"CommandsInBatchActOnDifferentPartitions"},
	} {
		_, err = c.SubmitTransaction(s.ctx, t.actions, nil)
		// The SDK's error has the status of the whole answer; its text contains the answer within.
		s.fails(err, 202, "", "%s", what)
		s.same(err != nil && strings.Contains(err.Error(), t.status) && strings.Contains(err.Error(), t.code), true,
			"%s: %v", what, err)
	}
	all, _, err = s.list(c, filter("RowKey eq 'x' or PartitionKey eq 'more' or PartitionKey eq 'q'"))
	s.same(fmt.Sprint(len(all), err), "0 <nil>", "none did anything")
	return nil
}

func (s *suite) queries() error {
	c, err := s.fresh("Query")
	if err != nil {
		return err
	}
	day := func(n int) time.Time { return time.Date(2020, 1, n, 0, 0, 0, 0, time.UTC) }
	for p := range 12 {
		node, err := s.table("Query", p)
		if err != nil {
			return err
		}
		var load []aztables.TransactionAction
		for i := range 100 {
			load = append(load, aztables.TransactionAction{ActionType: aztables.TransactionTypeAdd,
				Entity: entity(fmt.Sprintf("p%02d", p), fmt.Sprintf("r%03d", i),
					props{"n": int32(p*100 + i), "even": i%2 == 0,
						"half": float64(i) / 2, "day": aztables.EDMDateTime(day(1 + i%28)),
						"big": aztables.EDMInt64(1<<40 + i), "data": aztables.EDMBinary{byte(i)},
						"id": aztables.EDMGUID(fmt.Sprintf("00000000-0000-0000-0000-%012x", i))})})
		}
		if _, err := node.SubmitTransaction(s.ctx, load, nil); err != nil {
			return err
		}
	}
	numbers := func(from, to int) (out []int) {
		for i := from; i < to; i++ {
			out = append(out, i)
		}
		return out
	}
	ns := func(all []aztables.EDMEntity) (out []int) {
		for _, e := range all {
			n, _ := e.Properties["n"].(int32)
			out = append(out, int(n))
		}
		return out
	}
	all, sizes, err := s.list(c, nil)
	s.same(fmt.Sprint(ns(all), err), fmt.Sprint(numbers(0, 1200), nil), "all, over pages, in order")
	s.same(sizes[0], 1000, "a full page")
	for text, want := range map[string][]int{
		"PartitionKey eq 'p03'": numbers(300, 400), "PartitionKey eq 'p03' and RowKey ge 'r098'": {398, 399},
		"PartitionKey ge 'p03' and PartitionKey lt 'p05'": numbers(300, 500), "n eq 777": {777},
		"big eq 1099511627783L and n lt 100": {7}, "id eq guid'00000000-0000-0000-0000-000000000009' and n lt 200": {9,
			109}, "day eq datetime'2020-01-03T00:00:00Z' and n lt 60": {2, 30, 58},
		"data eq X'05' and n lt 100": {5}, "even eq true and n lt 5": {0, 2, 4}, "half gt 48.5 and n lt 100": {98, 99},
		"not (n lt 1198)": {1198, 1199}, "RowKey eq 'r000' and n ge 1000": {1000, 1100},
	} {
		all, _, err := s.list(c, filter("%s", text))
		s.same(fmt.Sprint(ns(all), err), fmt.Sprint(want, nil), "%s", text)
	}
	o := filter("n ge 100")
	o.Top, o.Select = to.Ptr(int32(400)), to.Ptr("n")
	all, sizes, err = s.list(c, o)
	s.same(fmt.Sprint(ns(all), sizes, err), fmt.Sprint(numbers(100, 1200), []int{400, 400, 300}, nil), "pages of 400")
	s.same(slices.ContainsFunc(all, func(e aztables.EDMEntity) bool { return len(e.Properties) != 1 }), false,
		"the selected alone")
	page, err := c.NewListEntitiesPager(&aztables.ListEntitiesOptions{Top: to.Ptr(int32(450))}).NextPage(s.ctx)
	if err != nil {
		return err
	}
	if page.NextPartitionKey == nil {
		return errors.New("no continuation token")
	}
	other, err := s.table("Query", 3)
	if err != nil {
		return err
	}
	all, _, err = s.list(other, &aztables.ListEntitiesOptions{NextPartitionKey: page.NextPartitionKey,
		NextRowKey: page.NextRowKey})
	s.same(fmt.Sprint(ns(all), err), fmt.Sprint(numbers(450, 1200), nil), "a continuation token at another node")
	_, _, err = s.list(c, filter("aaa bbb ccc"))
	s.fails(err, 400, "InvalidInput", "no filter at all")
	return nil
}

func (s *suite) signatures() error {
	c, err := s.fresh("Sas")
	if err != nil {
		return err
	}
	if _, err := c.AddEntity(s.ctx, entity("b", "r", nil), nil); err != nil {
		return err
	}
	now := time.Now().UTC()
	by := func(v aztables.SASSignatureValues) (*aztables.Client, error) {
		// By default, the SDK signs only for https.
		v.Protocol, v.TableName = aztables.SASProtocolHTTPSandHTTP, s.prefix+"Sas"
		sas, err := v.Sign(s.key)
		if err != nil {
			return nil, err
		}
		service, err := aztables.NewServiceClientWithNoCredential(s.endpoint(1)+"/?"+sas, options())
		if err != nil {
			return nil, err
		}
		return service.NewClient(s.prefix + "Sas"), nil
	}
	read, err1 := by(aztables.SASSignatureValues{Permissions: "r", ExpiryTime: now.Add(time.Hour)})
	expired, err2 := by(aztables.SASSignatureValues{Permissions: "r", StartTime: now.Add(-time.Hour),
		ExpiryTime: now.Add(-time.Minute)})
	// This SDK signs ranges of keys and then omits them from the URL.
	stored, err3 := by(aztables.SASSignatureValues{Identifier: "stored"})
	if err := errors.Join(err1, err2, err3); err != nil {
		return err
	}
	_, _, err = s.get(read, "b", "r")
	s.same(err, nil, "read")
	_, err = read.AddEntity(s.ctx, entity("b", "x", nil), nil)
	s.fails(err, 403, "AuthorizationPermissionMismatch", "read only")
	_, _, err = s.get(expired, "b", "r")
	s.fails(err, 403, "AuthenticationFailed", "expired")
	policy := &aztables.AccessPolicy{
		Start:      to.Ptr(now.Add(-time.Minute)),
		Expiry:     to.Ptr(now.Add(time.Hour)),
		Permission: to.Ptr("r"),
	}
	_, err = c.SetAccessPolicy(s.ctx, &aztables.SetAccessPolicyOptions{
		TableACL: []*aztables.SignedIdentifier{{ID: to.Ptr("stored"), AccessPolicy: policy}},
	})
	s.same(err, nil, "a stored policy")
	policies, err := c.GetAccessPolicy(s.ctx, nil)
	if err != nil {
		return err
	}
	s.same(len(policies.SignedIdentifiers), 1, "one policy")
	_, _, err = s.get(stored, "b", "r")
	s.same(err, nil, "by the policy")
	_, err = c.SetAccessPolicy(s.ctx, nil)
	s.same(err, nil, "no policy")
	_, _, err = s.get(stored, "b", "r")
	s.fails(err, 403, "AuthenticationFailed", "revoked")
	wrong, err := aztables.NewSharedKeyCredential(s.account, strings.Repeat("AAAA", 21)+"AA==")
	if err != nil {
		return err
	}
	service, err := aztables.NewServiceClientWithSharedKey(s.endpoint(0), wrong, options())
	if err != nil {
		return err
	}
	_, _, err = s.get(service.NewClient(s.prefix+"Sas"), "b", "r")
	s.fails(err, 403, "AuthenticationFailed", "another key")
	return nil
}

func (s *suite) properties() error {
	c, err := s.service(0)
	if err != nil {
		return err
	}
	rule := func(origin string) *aztables.CorsRule {
		return &aztables.CorsRule{AllowedOrigins: to.Ptr(origin), AllowedMethods: to.Ptr("GET,PUT"),
			AllowedHeaders: to.Ptr("x-ms-*"), ExposedHeaders: to.Ptr("x-ms-*"), MaxAgeInSeconds: to.Ptr(int32(500))}
	}
	days := &aztables.RetentionPolicy{Enabled: to.Ptr(true), Days: to.Ptr(int32(5))}
	_, err = c.SetProperties(s.ctx, aztables.ServiceProperties{
		Logging: &aztables.Logging{Version: to.Ptr("1.0"), Read: to.Ptr(true), Write: to.Ptr(true),
			Delete: to.Ptr(false), RetentionPolicy: days},
		HourMetrics: &aztables.Metrics{Version: to.Ptr("1.0"), Enabled: to.Ptr(true), IncludeAPIs: to.Ptr(true),
			RetentionPolicy: days},
		Cors: []*aztables.CorsRule{rule("http://a.example.com"), rule("http://b.example.com")},
	}, nil)
	s.same(err, nil, "set")
	other, err := s.service(3)
	if err != nil {
		return err
	}
	got, err := other.GetProperties(s.ctx, nil)
	if err != nil {
		return err
	}
	if got.Logging == nil || got.HourMetrics == nil || len(got.Cors) != 2 {
		return fmt.Errorf("properties: %+v", got)
	}
	s.same([]bool{*got.Logging.Read, *got.Logging.Write, *got.Logging.Delete, *got.HourMetrics.Enabled},
		[]bool{true, true, false, true}, "switches")
	s.same([]int32{*got.Logging.RetentionPolicy.Days, *got.Cors[0].MaxAgeInSeconds}, []int32{5, 500}, "numbers")
	s.same(*got.Cors[1].AllowedOrigins, "http://b.example.com", "a rule")
	bad := []*aztables.CorsRule{rule("a"), rule("b"), rule("c"), rule("d"), rule("e"), rule("f")}
	_, err = c.SetProperties(s.ctx, aztables.ServiceProperties{Cors: bad}, nil)
	s.fails(err, 400, "InvalidXmlDocument", "six rules")
	off := &aztables.RetentionPolicy{Enabled: to.Ptr(false)}
	_, err = c.SetProperties(s.ctx, aztables.ServiceProperties{Cors: []*aztables.CorsRule{},
		Logging: &aztables.Logging{Version: to.Ptr("1.0"), Read: to.Ptr(false), Write: to.Ptr(false),
			Delete: to.Ptr(false), RetentionPolicy: off},
		HourMetrics: &aztables.Metrics{Version: to.Ptr("1.0"), Enabled: to.Ptr(false), RetentionPolicy: off}}, nil)
	s.same(err, nil, "as before")
	return nil
}
