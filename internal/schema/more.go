package schema

import (
	"strconv"
)

// more is what a plan asks beyond the common keywords. A value may have to be looked at
// again and again for it, so the work of a schema that has it anywhere is counted.
type more struct {
	all, any, one         []*plan // all has the references too
	not                   *plan
	test, then, otherwise *plan

	required   []string // beyond those that plan.required has bits for
	dependents []dependent
	names      *plan
	patterns   []namePattern
	extra      *plan // in place of plan.extra if there are patterns

	prefix   []*plan
	rest     *plan // of the items behind the prefix, in place of plan.items
	counts   bool  // items behind the prefix are refused by their number
	contains *plan
	atLeast  int  // of the items that contains wants
	atMost   int  // -1 is no bound
	marks    bool // what contains has found counts as evaluated
	unique   bool

	step *bound

	openProperties, openItems *plan // unevaluated
}

// dependent is what a property asks of the object that has it.
type dependent struct {
	name     string
	required []string
	plan     *plan // nil is any
}

type namePattern struct {
	*pattern
	plan *plan
}

func (p *planner) more(of *plan) *more {
	if of.more == nil {
		of.more = &more{atLeast: 1, atMost: -1}
		p.counted = true
	}
	return of.more
}

// keywordMore plans a keyword that is not one of the common.
func (p *planner) keywordMore(to *plan, n *node, key string, v any) {
	switch key {
	case "anyOf":
		p.more(to).any = p.list(n, key, v)
	case "oneOf":
		p.more(to).one = p.list(n, key, v)
	case "not":
		p.more(to).not = p.sub(n, key)
	case "if":
		x := p.more(to)
		x.test, x.then, x.otherwise = p.sub(n, key), p.sub(n, "then"), p.sub(n, "else")
	case "patternProperties":
		members, _ := v.(map[string]any)
		for _, name := range sortedNames(members) {
			x := p.more(to)
			x.patterns = append(x.patterns, namePattern{patternOf(name), p.sub(n, key, name)})
		}
	case "propertyNames":
		p.more(to).names = p.sub(n, key)
	case "contains":
		x := p.more(to)
		x.contains, x.marks = p.sub(n, key), p.doc.dialect == draft2020
	case "minContains":
		p.more(to).atLeast = countOf(v)
	case "maxContains":
		p.more(to).atMost = countOf(v)
	case "uniqueItems":
		if v == true {
			p.more(to).unique = true
		}
	case "multipleOf":
		p.more(to).step = boundOf(v)
	case "unevaluatedProperties":
		p.more(to).openProperties = p.sub(n, key)
	case "unevaluatedItems":
		p.more(to).openItems = p.sub(n, key)
	}
}

func (p *planner) list(n *node, key string, v any) (plans []*plan) {
	list, _ := v.([]any)
	for i := range list {
		plans = append(plans, p.sub(n, key, strconv.Itoa(i)))
	}
	return plans
}

func namesOf(v any) (names []string) {
	list, _ := v.([]any)
	for _, v := range list {
		name, _ := v.(string)
		names = append(names, name)
	}
	return names
}

// finishMore plans what depends on several keywords, or stands in several.
func (p *planner) finishMore(to *plan, n *node) {
	for _, key := range []string{"dependentRequired", "dependentSchemas", "dependencies"} {
		members, _ := n.object[key].(map[string]any)
		for _, name := range sortedNames(members) {
			if p.doc.knows(key) {
				x := p.more(to)
				x.dependents = append(x.dependents, dependent{name, namesOf(members[name]), p.sub(n, key, name)})
			}
		}
	}
	for _, key := range []string{"prefixItems", "items"} {
		if list := p.list(n, key, n.object[key]); len(list) > 0 && p.doc.knows(key) {
			x := p.more(to)
			x.prefix, x.rest, to.items = list, to.items, nil
			if key == "items" && p.doc.knows("additionalItems") {
				x.rest = p.sub(n, "additionalItems")
				x.counts = x.rest != nil && x.rest.never
			}
			break
		}
	}
	if v, both := n.object["const"]; both {
		only := enumOf([]any{v})
		if to.enum == nil {
			to.enum = only
		} else {
			x := p.more(to)
			x.all = append(x.all, &plan{enum: only, maxProps: -1, maxItems: -1, maxLength: -1})
		}
	}
	if to.enum != nil && to.enum.others != nil {
		p.more(to)
	}
	all := p.list(n, "allOf", n.object["allOf"])
	if len(all) > 0 || len(n.refs) > 1 {
		p.more(to)
	}
	for _, target := range n.refs {
		to.ref = p.plan(target)
		if to.more != nil {
			to.more.all, to.ref = append(to.more.all, to.ref), nil
		}
	}
	if x := to.more; x != nil {
		x.all = append(x.all, all...)
		if len(x.patterns) > 0 {
			x.extra, to.extra = to.extra, nil
		}
	}
}
