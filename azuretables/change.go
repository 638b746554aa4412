package azuretables

import (
	"strconv"
	"strings"

	"cqld/azuretables/entity"
	"cqld/azuretables/odata"
	"cqld/schema"
)

// changeParser parses the changes that requests, and operations of a changeset, describe. It has no state, so one
// serves all operations of a changeset.
type changeParser struct {
	account string
	grant   *grant
	limits  *odata.Limits
}

// parse parses the change that a method, path, headers and body describe into op, and checks that the grant allows it
// and covers its keys. It reuses op's properties. An operation of a changeset and a single request are parsed in the
// same way. method is the effective one. Errors come in the order of the service's checks, as far as it is recorded.
func (p *changeParser) parse(method string, path *odata.Path, h *header, body []byte, op *entity.Operation) error {
	var err error
	table := path.Table
	switch method {
	case "POST":
		// Insert addresses the table; its keys are in the body.
		switch path.Resource {
		case odata.EntitySet:
		case odata.Partition, odata.IncompleteEntity:
			return odata.ErrKeyCount(p.account, table)
		default:
			return odata.Of(odata.MethodNotAllowed)
		}
		op.Kind = entity.Insert
		err = p.grant.permitsChange(addEntity(), table)
	case "DELETE":
		op.Kind = entity.Delete
		err = p.grant.permitsChange(deleteEntity(), table)
	case "PUT", "PATCH", "MERGE":
		// If-Match decides between an update, which needs an existing entity, and an upsert, which also needs
		// permission to add.
		var wanted action
		op.Kind, wanted = updateKind(method, h.ifMatch != "")
		err = p.grant.permitsChange(wanted, table)
	default:
		return odata.Of(odata.MethodNotAllowed)
	}
	switch {
	// Errors of authorization precede errors of the address, so that a client without permission learns nothing more.
	case err != nil:
		return err
	// PUT, PATCH, MERGE and DELETE need an entity's address.
	case method != "POST" && (path.Resource == odata.Partition || path.Resource == odata.IncompleteEntity):
		return odata.ErrKeyCount(p.account, table)
	case method != "POST" && path.Resource != odata.OneEntity:
		return odata.Of(odata.MethodNotAllowed)
	case method == "DELETE":
		err = parseDeletion(path, h, op)
	default:
		err = p.content(method, path, h, body, op)
	}
	if err != nil {
		return err
	}
	// The key range is checked after the keys are known. An insert has them in its body.
	if !p.grant.covers(op.Entity.PartitionKey, op.Entity.RowKey) {
		return odata.Of(odata.AuthorizationFailure)
	}
	if op.TTL, err = parseTTL(h.ttl); err != nil {
		return err
	}
	// If-Match of an insert is ignored.
	if method == "POST" {
		return nil // an insert has no entity to match
	}
	return condition(h.ifMatch, op)
}

// updateKind returns the operation of PUT, PATCH and MERGE: without If-Match the entity need not exist. PATCH and MERGE
// are the same operation. PATCH is its standard name. InsertOrReplace and InsertOrMerge need the permissions to add and
// to update.
func updateKind(method string, match bool) (entity.Kind, action) {
	switch {
	case method == "PUT" && match:
		return entity.Update, updateEntity()
	case method == "PUT":
		return entity.InsertOrReplace, upsertEntity()
	case match:
		return entity.Merge, updateEntity()
	}
	return entity.InsertOrMerge, upsertEntity()
}

// parseDeletion parses a delete, which has no body. If-Match is mandatory; "*" deletes unconditionally. It returns
// MissingRequiredHeader without the header, as the service does.
func parseDeletion(path *odata.Path, h *header, op *entity.Operation) error {
	if h.ifMatch == "" {
		return odata.Of(odata.MissingRequiredHeader)
	}
	op.Entity = odata.Entity{PartitionKey: path.PartitionKey, RowKey: path.RowKey}
	return nil
}

// content parses the entity in a body. Except with POST, the keys come from the URL, and keys in the body must equal
// them. op then refers to body.
func (p *changeParser) content(method string, path *odata.Path, h *header, body []byte, op *entity.Operation) error {
	if err := wantsJSON(h.contentType); err != nil {
		return err
	}
	// DecodeEntity reuses op's properties, whose bytes refer to body.
	e := &op.Entity
	keys, err := odata.DecodeEntity(body, p.limits, e)
	if err != nil {
		return err
	}
	// Only an insert must repeat its keys in the body.
	if method == "POST" {
		return keys.Need()
	}
	// Clients may repeat the keys of the URL, and must repeat them exactly.
	if keys&odata.HasPartitionKey != 0 && e.PartitionKey != path.PartitionKey ||
		keys&odata.HasRowKey != 0 && e.RowKey != path.RowKey {
		return odata.Of(odata.InvalidInput)
	}
	e.PartitionKey, e.RowKey = path.PartitionKey, path.RowKey
	// DecodeEntity has checked the limits on keys in the body only.
	if err := p.limits.CheckKey(e.PartitionKey); err != nil {
		return err
	}
	return p.limits.CheckKey(e.RowKey)
}

// wantsJSON returns nil if a body's content type is JSON, the only supported format. Parameters such as
// odata=nometadata do not matter: properties carry their own types. Bodies of DELETE are ignored, whatever their type.
func wantsJSON(contentType string) error {
	mediaType, _, _ := strings.Cut(contentType, ";")
	switch mediaType = strings.TrimSpace(mediaType); {
	case strings.EqualFold(mediaType, "application/json"):
		return nil
	// The service has a separate error for Atom, which it no longer accepts.
	case strings.EqualFold(mediaType, "application/atom+xml"):
		return odata.Of(odata.AtomFormatNotSupported)
	}
	return odata.Of(odata.MediaTypeNotSupported)
}

// condition parses If-Match into an operation. An absent header means that op has no condition. "*" requires the entity
// to exist, without a condition on its version: that is in op.Kind. op.Conditional is set only for a specific ETag.
func condition(ifMatch string, op *entity.Operation) error {
	if ifMatch == "" {
		return nil
	}
	ticks, any, err := odata.ParseETag(ifMatch)
	if err != nil {
		return err
	}
	op.Match, op.Conditional = ticks, !any
	// The ETag contains the Timestamp in ticks. any is true for "*".
	return nil
}

// parseTTL parses the header x-cqld-ttl. It is an extension: the lifetime of the entity in seconds, 1 to schema.TTLMax.
// Zero means that the header is absent. InvalidHeaderValue is returned for other values.
func parseTTL(s string) (int32, error) {
	if s == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(s, 10, 32)
	if err != nil || n < 1 || n > schema.TTLMax {
		return 0, odata.Of(odata.InvalidHeaderValue)
	}
	return int32(n), nil
}
