// eachserver.go: lists of what several servers have.

package mcp

import (
	"errors"
	"sync"

	"github.com/spf13/cobra"

	"github.com/troupe-dev/troupe/internal/cli/env"
	"github.com/troupe-dev/troupe/internal/cli/setup"
	"github.com/troupe-dev/troupe/mcpclient"
)

// listOf is what one server has listed.
type listOf[T any] struct {
	server string
	items  []T
}

// maxStarting bounds the servers that are started and asked at the same time.
const maxStarting = 8

// eachServer asks the servers that are named, or all, a few at a time. It returns the lists
// of those that have answered, in the order of the configuration, and with them as an error
// what has become of the others.
func eachServer[T any](cmd *cobra.Command, e *env.Env, f *setup.ServerFlags, names []string, list func(c *mcpclient.Client) ([]T, error)) (
	lists []listOf[T], err error) {
	s, err := e.OpenStore()
	if err != nil {
		return nil, err
	}
	defer env.CloseStore(s, &err)
	servers, err := setup.Pick(e, f, names)
	if err != nil {
		return nil, err
	}
	all, errs, answered := make([]listOf[T], len(servers)), make([]error, len(servers)), make([]bool, len(servers))
	var asked sync.WaitGroup
	places := make(chan struct{}, maxStarting)
	for i := range servers {
		places <- struct{}{}
		asked.Go(func() {
			defer func() { <-places }()
			all[i].server = servers[i].Name
			errs[i] = setup.WithClient(cmd.Context(), e, f, s, servers[i], func(c *mcpclient.Client) error {
				items, err := list(c)
				if err != nil {
					return env.ExitWith(setup.CallExit(err), err)
				}
				all[i].items, answered[i] = items, true
				return nil
			})
		})
	}
	asked.Wait()
	for i := range all {
		if answered[i] {
			lists = append(lists, all[i])
		}
	}
	return lists, joinExits(errs)
}

// joinExits joins errors. The program exits as for each of them if they agree, else with
// exitUnreachable.
func joinExits(errs []error) error {
	all := errors.Join(errs...)
	if all == nil {
		return nil
	}
	code := env.ExitOK
	for _, err := range errs {
		switch c := env.ExitCode(err); {
		case err == nil:
		case code == env.ExitOK:
			code = c
		case c != code:
			code = env.ExitUnreachable
		}
	}
	return env.ExitWith(code, all)
}

// printLists prints what servers have listed, as JSON or in rows. Failed is what has become
// of those that have not, and is returned; where no server has answered nothing is printed.
func printLists(e *env.Env, servers int, asJSON bool, all any, rows [][]string, failed error) error {
	if servers == 0 && failed != nil {
		return failed
	}
	var err error
	if asJSON {
		err = e.PrintRaw(all)
	} else {
		err = e.Table(rows)
	}
	if err != nil {
		return errors.Join(err, failed)
	}
	return failed
}
