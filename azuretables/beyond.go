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

// deletePartition deletes a whole partition in one request (beyond Azure). It does not count the deleted entities.
func (c *call) deletePartition() error {
	if err := c.grant.permitsChange(deleteEntity(), c.path.Table); err != nil {
		return err
	}
	if c.grant.from != nil || c.grant.to != nil {
		return odata.Of(odata.AuthorizationFailure) // a signature with a key range does not cover a whole partition
	}
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
func (c *call) deleteMatching() error {
	p := &c.params
	if strings.TrimSpace(p.filter) == "" {
		return odata.Of(odata.MethodNotAllowed) // an omitted filter must not delete the whole table
	}
	if p.hasTop || p.selected != "" || p.orderBy != "" {
		return odata.Of(odata.InvalidInput)
	}
	if err := c.grant.permitsChange(deleteEntity(), c.path.Table); err != nil {
		return err
	}
	if err := c.authorized(auth.Modify, c.path.Table); err != nil { // even if no entity matches
		return err
	}
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
	deleted int
}

// run deletes one page after the other.
func (d *deletion) run() error {
	for !d.late() {
		page, err := d.call.runQuery(d.query)
		if err != nil {
			return d.fail(err)
		}
		again, err := d.deletePage(page.Entities)
		if err != nil {
			return d.fail(err)
		}
		if again {
			continue
		}
		if d.query.From = page.Next; page.Next == nil {
			d.respond()
			return nil
		}
	}
	d.proceed()
	return nil
}

func (d *deletion) late() bool { return d.call.server.o.Clock.Monotonic() >= d.until }

// fail returns err if nothing was deleted. Otherwise it responds with the number deleted and a continuation.
func (d *deletion) fail(err error) error {
	if d.deleted == 0 {
		return err
	}
	d.proceed()
	return nil
}

// proceed responds with a continuation.
func (d *deletion) proceed() {
	from := d.query.From
	if from == nil {
		from = &entity.Position{} // the first page must be repeated
	}
	d.call.resp.proceed(from)
	d.respond()
}

func (d *deletion) respond() {
	d.call.resp.noContent()
	d.call.resp.addInt(deletedHeader, d.deleted)
}

// deletePage deletes entities if they have not changed since they were read. again reports that some have changed, or
// that the time is over.
func (d *deletion) deletePage(entities []odata.Entity) (again bool, err error) {
	c := d.call
	for len(entities) > 0 {
		n := 1
		for n < len(entities) && n < deletePage && entities[n].PartitionKey == entities[0].PartitionKey {
			n++
		}
		if d.late() {
			return true, nil
		}
		ops := make([]entity.Operation, n)
		for i := range ops {
			e := &entities[i]
			ops[i] = entity.Operation{Kind: entity.Delete, Match: e.Timestamp, Conditional: true,
				Entity: odata.Entity{PartitionKey: e.PartitionKey, RowKey: e.RowKey}}
		}
		_, err := c.server.o.Service.Apply(&c.request, c.account.name, c.path.Table, ops)
		switch {
		case err == nil:
			d.deleted += n
			c.server.rates.charge(c.account.name, c.path.Table, entities[0].PartitionKey, n)
		case changedMeanwhile(err):
			again = true
		default:
			return false, err
		}
		entities = entities[n:]
	}
	return again, nil
}

func changedMeanwhile(err error) bool {
	var e *odata.Error
	return errors.As(err, &e) && (e.Code == odata.UpdateConditionNotSatisfied || e.Code == odata.ResourceNotFound)
}
