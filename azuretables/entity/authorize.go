package entity

import (
	"cqld/auth"
	"cqld/azuretables/odata"
	"cqld/request"
	"cqld/schema"
)

// authorize returns nil if the request has the permission on the resource, and *auth.Denied if it has not. The role is
// r.Principal.
func (s *Store) authorize(r *request.Request, permission auth.Permission, on auth.Resource) error {
	return s.o.Executor.Authorize(r, auth.Requirement{Permission: permission, Resource: on})
}

// permits checks the permission on a table. The resource is the CQL table, so that a role needs the same permissions in
// both protocols. Changing entities requires MODIFY even if it adds columns, because properties are data in Azure
// Tables. The name of a table in a permission is the CQL name, in the case of the catalog.
func (s *Store) permits(r *request.Request, permission auth.Permission, p *plan) error {
	return s.authorize(r, permission, auth.Table(p.table.Keyspace, p.table.Name))
}

// mayRead checks the permission to read entities. Masks of columns are not applied to entities: reading a table with
// masks also requires UNMASK. Masks would have to be applied to filters as well.
func (s *Store) mayRead(r *request.Request, p *plan) error {
	if err := s.permits(r, auth.Select, p); err != nil || !p.table.Masked() {
		return err
	}
	return s.permits(r, auth.Unmask, p)
}

// Authorize implements Service. A missing table is TableNotFound, before any permission is checked. An account without
// tables has its keyspace as its resource.
func (s *Store) Authorize(r *request.Request, permission auth.Permission, account, table string) error {
	if table == "" {
		return s.authorize(r, permission, auth.Keyspace(account))
	}
	p := s.catalog(account).find(table)
	if p == nil {
		return odata.Of(odata.TableNotFound)
	}
	return s.permits(r, permission, p)
}

// propose changes the schema within the request's deadline. The deadline also bounds the wait for other nodes.
func (s *Store) propose(r *request.Request, change schema.Change) error {
	ctx, cancel := s.o.Executor.WithDeadline(r, 0)
	defer cancel()
	return s.o.Changer.ProposeSchemaFor(ctx, r.Principal, change)
}

// tableExists returns the error of a table that exists, when every live node has it: the client may then use it
// anywhere. Another client may have created the table just now, and this one will use it at any node. A client that
// repeats CreateTable after a timeout relies on it.
func (s *Store) tableExists(r *request.Request) error {
	ctx, cancel := s.o.Executor.WithDeadline(r, 0)
	defer cancel()
	if err := s.o.Changer.AwaitSchema(ctx); err != nil {
		return err
	}
	return odata.Of(odata.TableAlreadyExists)
}
