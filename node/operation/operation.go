package operation

import (
	"cqld/azuretables"
	"cqld/azuretables/odata"
)

// Kind is the kind of a request to the Tables server. Kinds are labels of metrics and indexes of arrays; they are not
// stored.
type Kind int

// The kinds of requests.
const (
	Other Kind = iota // an unknown resource, or an unsupported method
	Service
	ListTables
	CreateTable
	DeleteTable
	Policies
	Query
	Insert
	Get
	Replace
	Merge
	Delete
	DeleteMany
	Count
	Transaction
	Kinds
)

// String returns the name of the operation in metrics. The names are labels in dashboards, so they must not change. It
// panics for values that are not below Kinds.
func (o Kind) String() string {
	return [Kinds]string{"other", "service", "list_tables", "create_table", "delete_table", "policies",
		"query", "insert", "get",
		"replace", "merge", "delete", "delete_many", "count", "transaction"}[o]
}

// Of also classifies methods that the resource does not support: clients choose the method, and must not control the
// number of metrics. A method that the resource does not support is Other.
func Of(a azuretables.Answer) Kind {
	switch a.Resource {
	case odata.ServiceRoot:
		return Service
	case odata.TableSet, odata.OneTable:
		return byMethod(a.Method, ListTables, CreateTable, Other, Other, DeleteTable)
	// PUT and PATCH need the keys of one entity in the path (OneEntity).
	case odata.EntitySet:
		// ?comp=acl reads or writes the stored access policies of a table.
		if a.Comp != "" {
			return Policies
		}
		return byMethod(a.Method, Query, Insert, Other, Other, DeleteMany)
	case odata.OneEntity:
		return byMethod(a.Method, Get, Other, Replace, Merge, Delete)
	case odata.Partition:
		return DeleteMany
	case odata.EntityCount:
		return Count
	// A transaction counts once, however many operations it contains.
	case odata.BatchEndpoint:
		return Transaction
	}
	return Other
}

// MERGE is the verb of the older protocol for PATCH, and OData clients still send it. byMethod returns the kind for a
// method of HTTP.
func byMethod(method string, get, post, put, patch, del Kind) Kind {
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
	return Other
}
