package openai

import (
	"errors"
	"fmt"

	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/internal/rest"
)

// maxCalls bounds the calls of one turn.
const maxCalls = 256

// calls puts the fragments of a turn's calls together.
type calls struct {
	list []*pending
	size int // bytes of all of them
}

type pending struct {
	index int // as the server counts, -1 where it does not
	id    string
	name  string
	args  []byte
	state []llm.ProviderState // without their owner
}

// add takes a fragment.
func (c *calls) add(d callDelta) (err error) {
	p := c.find(d)
	if p == nil {
		if p, err = c.begin(); err != nil {
			return err
		}
		if d.Index != nil {
			p.index = *d.Index
		}
	}
	return c.extend(p, d)
}

// begin begins a call.
func (c *calls) begin() (*pending, error) {
	if len(c.list) == maxCalls {
		return nil, fmt.Errorf("%w: more than %d calls", llm.ErrTooLarge, maxCalls)
	}
	p := &pending{index: -1}
	c.list = append(c.list, p)
	return p, nil
}

// extend puts a fragment behind a call. The bound is [rest.MaxDocument] for all calls together.
func (c *calls) extend(p *pending, d callDelta) error {
	if p.id == "" {
		p.id = d.ID
		c.size += len(p.id)
	}
	if len(p.args) == 0 && p.name != d.Function.Name { // a name may come in pieces, or again
		if p.name += d.Function.Name; len(p.name) > rest.MaxName {
			return fmt.Errorf("%w: a tool's name of more than %d bytes", llm.ErrTooLarge, rest.MaxName)
		}
	}
	if c.size += len(d.Function.Arguments) + len(d.Function.Name) + len(d.Extra); c.size > rest.MaxDocument {
		return fmt.Errorf("%w: calls of more than %d bytes", llm.ErrTooLarge, rest.MaxDocument)
	}
	if len(d.Extra) > 0 {
		p.state = []llm.ProviderState{{Kind: kindExtra, Data: d.Extra}}
	}
	p.args = append(p.args, d.Function.Arguments...)
	return nil
}

// find returns the call a fragment belongs to: the one with its index, or without one
// the last. A fragment with another id and a name begins a new call all the same, since
// some servers number every call zero.
func (c *calls) find(d callDelta) *pending {
	var found *pending
	for _, p := range c.list {
		if d.Index == nil || p.index == *d.Index {
			found = p // the newest of this index
		}
	}
	if found == nil {
		return nil
	}
	another := d.ID != "" && found.id != "" && d.ID != found.id
	if another && d.Function.Name != "" {
		return nil
	}
	if another && d.Index == nil {
		return nil
	}
	return found
}

// complete returns the calls in the order of their beginnings. Those whose arguments are no object are returned apart,
// and of a turn that was cut the last one with them: there are servers between us and the model that
// make an object of what there was of it. A call without a name can be answered by nothing: it is an error.
func (c *calls) complete(cut bool, ids rest.IDs) (whole, parts []llm.ToolCall, err error) {
	for i, p := range c.list {
		args, err := rest.Arguments(p.args)
		switch {
		case p.name == "" && !cut:
			return nil, nil, errors.New("a call has no name")
		case err != nil || cut && (p.name == "" || i == len(c.list)-1):
			parts = append(parts, llm.ToolCall{Index: i, ID: ids.Unique(p.id), Name: p.name, Arguments: p.args})
		default:
			whole = append(whole, llm.ToolCall{Index: len(whole), ID: ids.Unique(p.id), Name: p.name, Arguments: args, State: p.state})
		}
	}
	return whole, parts, nil
}
