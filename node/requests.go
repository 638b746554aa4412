package node

import (
	"sync/atomic"
	"time"

	"cqld/azuretables"
	"cqld/azuretables/odata"
)

// requestKind is what a door asks the coordinator for.
type requestKind int

const (
	reading requestKind = iota
	writing
	batching
	counting
	deciding
	listing
	requestKinds
)

// String is the kind as metrics call it.
func (k requestKind) String() string {
	return [requestKinds]string{"read", "write", "batch", "counter", "cas", "partitions"}[k]
}

// every is how many requests there are for one whose time is taken: see readsMeasured. The others do much more than
// look at the clock.
func (k requestKind) every() int64 {
	if k == reading || k == writing {
		return readsMeasured
	}
	return 1
}

// requestFigures are what one door asked the coordinator for since the node started.
type requestFigures struct {
	kinds [requestKinds]timed
	// What became of conditional changes; an error says nothing of whether it was made.
	applied, notApplied, failed atomic.Int64
}

// timed counts what was done, and how long some of it took.
type timed struct {
	count   atomic.Int64
	latency histogram
}

// begin counts a request. It is its beginning, when its time is to be taken; else zero.
func (f *requestFigures) begin(k requestKind) (began time.Time) {
	if f.kinds[k].count.Add(1)%k.every() == 0 {
		began = time.Now()
	}
	return began
}

func (f *requestFigures) end(k requestKind, began time.Time) {
	f.kinds[k].latency.add(time.Since(began))
}

// measure counts a request whose end done is told.
func (f *requestFigures) measure(k requestKind, done func(error)) func(error) {
	began := f.begin(k)
	if began.IsZero() {
		return done
	}
	return func(err error) {
		f.end(k, began)
		done(err)
	}
}

func (f *requestFigures) measureRead(done func([]byte, error)) func([]byte, error) {
	began := f.begin(reading)
	if began.IsZero() {
		return done
	}
	return func(page []byte, err error) {
		f.end(reading, began)
		done(page, err)
	}
}

func (f *requestFigures) measureCAS(done func(bool, []byte, error)) func(bool, []byte, error) {
	began := f.begin(deciding)
	return func(applied bool, page []byte, err error) {
		f.end(deciding, began)
		switch {
		case err != nil:
			f.failed.Add(1)
		case applied:
			f.applied.Add(1)
		default:
			f.notApplied.Add(1)
		}
		done(applied, page, err)
	}
}

// tablesOperation is what a client of the Tables door wants.
type tablesOperation int

const (
	otherOperation tablesOperation = iota // of no resource, or no method of it
	serviceOperation
	listTables
	createTable
	deleteTable
	tablePolicies
	queryEntities
	insertEntity
	getEntity
	replaceEntity
	mergeEntity
	deleteEntity
	deleteMany
	countEntities
	transaction
	tablesOperations
)

// String is the operation as metrics call it.
func (o tablesOperation) String() string {
	return [tablesOperations]string{"other", "service", "list_tables", "create_table", "delete_table", "policies", "query", "insert", "get",
		"replace", "merge", "delete", "delete_many", "count", "transaction"}[o]
}

// operationOf knows what is not a method of the resource, too: clients choose it, and must not choose how many
// metrics there are.
func operationOf(a azuretables.Answer) tablesOperation {
	switch a.Resource {
	case odata.ServiceRoot:
		return serviceOperation
	case odata.TableSet, odata.OneTable:
		return byMethod(a.Method, listTables, createTable, otherOperation, otherOperation, deleteTable)
	case odata.EntitySet:
		if a.Comp != "" {
			return tablePolicies
		}
		return byMethod(a.Method, queryEntities, insertEntity, otherOperation, otherOperation, deleteMany)
	case odata.OneEntity:
		return byMethod(a.Method, getEntity, otherOperation, replaceEntity, mergeEntity, deleteEntity)
	case odata.Partition:
		return deleteMany
	case odata.EntityCount:
		return countEntities
	case odata.BatchEndpoint:
		return transaction
	}
	return otherOperation
}

func byMethod(method string, get, post, put, patch, del tablesOperation) tablesOperation {
	switch method {
	case "GET":
		return get
	case "POST":
		return post
	case "PUT":
		return put
	case "PATCH", "MERGE":
		return patch
	case "DELETE":
		return del
	}
	return otherOperation
}

// tablesFigures are what clients of the Tables door wanted, and were answered, since the node started.
type tablesFigures struct {
	operations [tablesOperations]struct {
		latency  histogram
		statuses [6]atomic.Int64 // by their first digit
	}
}

// answered is azuretables.Options.Answered.
func (f *tablesFigures) answered(a azuretables.Answer) {
	o := &f.operations[operationOf(a)]
	o.latency.add(a.Took)
	o.statuses[min(a.Status/100, len(o.statuses)-1)].Add(1)
}
