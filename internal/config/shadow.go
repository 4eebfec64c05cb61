package config

import (
	"path"
	"slices"
)

// shadowing is an agent of a project that has the name of one of the user's. It takes its
// place, for it says what that is here, and keeps to what the user has forbidden the
// name: sections of the user's, such as schedules, may mean it (SECA-45).
func (a Agent) shadowing(own Agent) Agent {
	if own.Err != nil { // what it forbids is unknown
		a.Err = own.Err
		return a
	}
	if a.Approve != "all" && (own.Approve == "all" || own.Approve == "writes") {
		a.Approve = own.Approve
	}
	a.Deny = slices.Concat(a.Deny, own.Deny)
	a.Allow = among(a.Allow, own.Allow, func(pattern, name string) bool {
		ok, err := path.Match(pattern, name)
		return err == nil && ok
	})
	a.Servers = among(a.Servers, own.Servers, func(x, y string) bool { return x == y })
	return a
}

// among returns those of list that are within bounds. Where none is left, or nothing was
// chosen, it is all of the bounds; without any, the list.
func among(list, bounds []string, has func(bound, one string) bool) []string {
	if bounds == nil {
		return list
	}
	var in []string
	for _, one := range list {
		if slices.ContainsFunc(bounds, func(b string) bool { return has(b, one) }) {
			in = append(in, one)
		}
	}
	if len(in) == 0 {
		return bounds
	}
	return in
}
