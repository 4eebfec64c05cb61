// eachserver.go: lists of what several servers have.

package mcp

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/troupe-dev/troupe/internal/cli/env"
	"github.com/troupe-dev/troupe/internal/cli/setup"
	"github.com/troupe-dev/troupe/mcpclient"
	"github.com/troupe-dev/troupe/store"
)

// listing is a list that is printed for several servers.
type listing[T any] struct {
	flags   *setup.ServerFlags
	names   []string // of the servers; none means all
	asJSON  bool
	heading string // of the table, as [env.PrintList] takes it
	list    func(c *mcpclient.Client) ([]T, error)
	// show returns an entry as JSON has it, and its row.
	show func(server string, item T) (view any, row []string)
}

// print asks the servers, a few at a time, and prints the lists of those that have answered,
// in the order of the configuration. What became of the others is returned.
func (l *listing[T]) print(ctx context.Context, e *env.Env) error {
	return e.WithStore(func(s store.Store) error {
		servers, err := setup.Pick(e, l.flags, l.names)
		if err != nil {
			return err
		}
		lists, errs := make([][]T, len(servers)), make([]error, len(servers))
		answered := make([]bool, len(servers))
		setup.AFewAtATime(len(servers), func(i int) {
			errs[i] = setup.WithClient(ctx, e, l.flags, s, servers[i], func(c *mcpclient.Client) (err error) {
				lists[i], err = l.list(c)
				answered[i] = err == nil
				return setup.CallError(err)
			})
		})
		failed := joinExits(errs)
		if failed != nil && !slices.Contains(answered, true) {
			return failed
		}
		views, rows := []any{}, [][]string{strings.Split(l.heading, "|")}
		for i, server := range servers {
			if !answered[i] {
				continue
			}
			for _, item := range lists[i] {
				view, row := l.show(server.Name, item)
				views, rows = append(views, view), append(rows, row)
			}
		}
		if l.asJSON {
			return errors.Join(e.PrintRaw(views), failed)
		}
		return errors.Join(e.Table(rows), failed)
	})
}

// joinExits joins errors. The program exits as for each of them if they agree, else with
// ExitUnreachable.
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
