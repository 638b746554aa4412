package azuretables

import (
	"errors"
	"strings"
	"time"

	"cqld/auth"
	"cqld/azuretables/entity"
	"cqld/azuretables/odata"
)

// deletedHeader reports the number of entities that a delete by filter has deleted.
const deletedHeader = "x-cqld-deleted"

// deletePartition deletes a whole partition in one request (beyond Azure). It does not count the deleted entities. The
// handler is reached by DELETE of an address with a PartitionKey alone. The timestamp of the tombstone is the time of
// the request, so later inserts survive.
func (c *call) deletePartition() error {
	if err := c.grant.permitsChange(deleteEntity(), c.path.Table); err != nil {
		return err
	}
	if c.grant.from != nil || c.grant.to != nil {
		// The partition may contain rows outside the range.
		return odata.Of(odata.AuthorizationFailure) // a signature with a key range does not cover a whole partition
	}
	// The cost is one entity: the delete writes one tombstone, and reads nothing.
	if err := c.server.rates.admit(c.account.name, c.path.Table, c.path.PartitionKey, 1); err != nil {
		return err
	}
	if err := c.server.o.Service.DeletePartition(&c.request, c.account.name, c.path.Table,
		c.path.PartitionKey); err != nil {
		return err
	}
	c.resp.noContent()
	return nil
}

// deleteMatching deletes the entities that match a filter (beyond Azure), in one transaction after the other. An entity
// that changes between the read and the delete stays, and is read and matched again. After QueryTimeout the response
// contains a continuation, with which the client repeats the request.
//
// The filter is evaluated at reads; each delete is conditional on the Timestamp that was read.
func (c *call) deleteMatching() error {
	p := &c.params
	// Only the extension requires a filter. A DELETE of a table's entities is no request of the service, so the error
	// is the one it sends.
	if strings.TrimSpace(p.filter) == "" {
		return odata.Of(odata.MethodNotAllowed) // an omitted filter must not delete the whole table
	}
	// A page size, projection or order has no meaning here, and a client that sends one expects something else.
	if p.hasTop || p.selected != "" || p.orderBy != "" {
		return odata.Of(odata.InvalidInput)
	}
	if err := c.grant.permitsChange(deleteEntity(), c.path.Table); err != nil {
		return err
	}
	// Apply checks the permission as well, but is not called if nothing matches.
	if err := c.authorized(auth.Modify, c.path.Table); err != nil { // even if no entity matches
		return err
	}
	// parseQuery also requires permission to read, because the count of deleted entities shows which keys exist.
	q, err := parseQuery(p, c.path.Resource, c.path.Table, c.grant, &c.server.limits)
	if err != nil {
		return err
	}
	d := deletion{call: c, query: q, until: c.server.o.Clock.Monotonic() + c.server.limits.QueryTimeout}
	return d.run()
}

// deletion is a delete by filter in progress.
type deletion struct {
	call    *call
	query   *entity.Query // its From is the position of the page that is not deleted completely yet
	until   time.Duration // monotonic; at this time the deletion ends with a continuation
	deleted int           // entities so far, reported in deletedHeader
}

// run deletes one page after the other. A page is read again while any of its entities has changed between the read and
// the delete. A page whose entities change all the time is repeated until the time is over.
func (d *deletion) run() error {
	for !d.late() {
		page, err := d.call.runQuery(d.query)
		if err != nil {
			return d.fail(err)
		}
		// The entities of a page are copies, valid after the next query.
		again, err := d.deletePage(page.Entities)
		if err != nil {
			return d.fail(err)
		}
		// From does not change, so the same page is read again. Entities that were deleted no longer match.
		if again {
			continue
		}
		// Only a page that is deleted completely moves the position.
		if d.query.From = page.Next; page.Next == nil {
			d.respond()
			return nil
		}
	}
	// The time is over. The client repeats the request with the continuation.
	d.proceed()
	return nil
}

// late reports whether the deletion must end with a continuation. It is tested before each transaction, so a response
// is late by one transaction at most.
func (d *deletion) late() bool { return d.call.server.o.Clock.Monotonic() >= d.until }

// fail returns err if nothing was deleted. Otherwise it responds with the number deleted and a continuation. The
// error is not reported after a partial success: the client needs the continuation to finish, and receives the error
// again if it persists.
func (d *deletion) fail(err error) error {
	if d.deleted == 0 {
		return err
	}
	d.proceed()
	return nil
}

// proceed responds with a continuation. The client sends the continuation with the same filter.
func (d *deletion) proceed() {
	from := d.query.From
	if from == nil {
		// An empty position means the beginning of the table.
		from = &entity.Position{} // the first page must be repeated
	}
	d.call.resp.proceed(from)
	d.respond()
}

// respond writes the status and the number of deleted entities. 204 is the status of the service for deletes.
func (d *deletion) respond() {
	d.call.resp.noContent()
	d.call.resp.addInt(deletedHeader, d.deleted)
}

// deletePage deletes entities if they have not changed since they were read. again reports that some have changed, or
// that the time is over. Entities of other partitions are deleted although one has changed.
func (d *deletion) deletePage(entities []odata.Entity) (again bool, err error) {
	c := d.call
	for len(entities) > 0 {
		// A transaction covers one partition, so it takes the run of entities with the same PartitionKey, in the
		// page's order.
		n := 1
		for n < len(entities) && n < deletePage && entities[n].PartitionKey == entities[0].PartitionKey {
			n++
		}
		if d.late() {
			return true, nil
		}
		ops := make([]entity.Operation, n)
		for i := range ops {
			// The condition on the Timestamp makes the delete safe: a changed entity may no longer match the filter.
			e := &entities[i]
			ops[i] = entity.Operation{Kind: entity.Delete, Match: e.Timestamp, Conditional: true,
				Entity: odata.Entity{PartitionKey: e.PartitionKey, RowKey: e.RowKey}}
		}
		_, err := c.server.o.Service.Apply(&c.request, c.account.name, c.path.Table, ops)
		switch {
		case err == nil:
			// The throttle counts deletes after the fact: their number is unknown when the request is admitted.
			d.deleted += n
			c.server.rates.charge(c.account.name, c.path.Table, entities[0].PartitionKey, n)
		case changedMeanwhile(err):
			// The transaction is atomic, so none of its n entities was deleted. The next transactions are tried
			// nevertheless.
			again = true
		default:
			return false, err
		}
		entities = entities[n:]
	}
	return again, nil
}

// changedMeanwhile reports whether a delete failed because its entity was changed or deleted after it was read. Both
// codes have the same meaning here: the entity is not the one that was read.
func changedMeanwhile(err error) bool {
	var e *odata.Error
	return errors.As(err, &e) && (e.Code == odata.UpdateConditionNotSatisfied || e.Code == odata.ResourceNotFound)
}
