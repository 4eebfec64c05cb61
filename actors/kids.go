package actors

import (
	"iter"
	"maps"
	"slices"
)

// fewKids are searched one by one: a map is several times the size of such a list, and most parents
// have one child or two.
const fewKids = 8

// kids are the children of an incarnation, by path, until ChildStopped. Nil is none.
type kids struct {
	few  []*process
	many map[string]*process // of all, from the first that was too many for few; else nil
}

func (k *kids) len() int {
	if k == nil {
		return 0
	}
	return len(k.few) + len(k.many)
}

func (k *kids) get(path string) *process {
	if k == nil {
		return nil
	}
	if i := k.index(path); i >= 0 {
		return k.few[i]
	}
	return k.many[path]
}

func (k *kids) index(path string) int {
	return slices.IndexFunc(k.few, func(p *process) bool { return p.pid.Id == path })
}

// add takes in a child. The caller has looked that its path is new.
func (k *kids) add(p *process) {
	switch {
	case k.many == nil && len(k.few) < fewKids:
		k.few = append(k.few, p)
		return
	case k.many == nil:
		k.many = make(map[string]*process)
		for _, kid := range k.few {
			k.many[kid.pid.Id] = kid
		}
		k.few = nil
	}
	k.many[p.pid.Id] = p
}

func (k *kids) remove(path string) {
	if i := k.index(path); i >= 0 {
		k.few = slices.Delete(k.few, i, i+1)
	}
	delete(k.many, path)
}

// all yields the children, of few the youngest first.
func (k *kids) all() iter.Seq[*process] {
	return func(yield func(*process) bool) {
		if k == nil {
			return
		}
		for _, p := range slices.Backward(k.few) {
			if !yield(p) {
				return
			}
		}
		maps.Values(k.many)(yield)
	}
}
