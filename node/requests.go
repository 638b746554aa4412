package node

import (
	"sync/atomic"

	"cqld/azuretables"
	"cqld/azuretables/odata"
	"cqld/internal/histogram"
)

// tablesOperation is the kind of a request to the Tables server.
type tablesOperation int

const (
	otherOperation tablesOperation = iota // an unknown resource, or an unsupported method
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

// String returns the name of the operation in metrics.
func (o tablesOperation) String() string {
	return [tablesOperations]string{"other", "service", "list_tables", "create_table", "delete_table", "policies",
		"query", "insert", "get",
		"replace", "merge", "delete", "delete_many", "count", "transaction"}[o]
}

// operationOf also classifies methods that the resource does not support: clients choose the method, and must not
// control the number of metrics.
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

// tablesFigures counts the requests to the Tables server and its responses since the node started.
type tablesFigures struct {
	operations [tablesOperations]struct {
		latency  histogram.Histogram
		statuses [6]atomic.Int64 // by their first digit
	}
}

// answered implements azuretables.Options.Answered.
func (f *tablesFigures) answered(a azuretables.Answer) {
	o := &f.operations[operationOf(a)]
	o.latency.Add(a.Took)
	o.statuses[min(a.Status/100, len(o.statuses)-1)].Add(1)
}
