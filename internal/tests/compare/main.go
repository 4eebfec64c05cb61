// Command compare measures Troupe's server beside other MCP servers and beside a
// floor, the least a server can do, in one run. It builds all servers itself.
//
//	go run ./compare                  # some minutes
//	go run ./compare -full            # five repetitions, ten thousand cancels
//	go run ./compare -run 'stdio|c64' -servers floor,troupe
//	go run ./compare -short           # does everything work?
//
// Each repetition of a scenario starts every server in a fresh process, in turn,
// so that other work on the machine hits all of them. The load comes from
// this process, by hand-made messages over raw connections, and every answer is
// checked. CPU time is that of the server's process alone, as the system accounts
// for it; allocations and bytes are those of the whole process, for each request.
//
// The report is a table for each scenario with medians, the range and the multiple of
// the floor in the column that is compared, and then the goals of
// docs/performance.md, met or not.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

func main() {
	cfg := config{times: usual}
	fullRun := flag.Bool("full", false, "more and longer repetitions")
	short := flag.Bool("short", false, "everything once and briefly; the figures mean nothing")
	only := flag.String("run", "", "regular expression of the scenarios to run")
	names := flag.String("servers", "floor,troupe,mcpgo,gosdk", "which servers; there are mcpgo-v (validating) and gosdk-json too")
	also := flag.String("also", "", "NAME=PROGRAM,...: more servers, built already, such as an older troupe")
	repetitions := flag.Int("reps", 0, "how often, if not as -full or -short say")
	flag.StringVar(&cfg.profiles, "profiles", "", "folder for profiles of the CPU and the allocations of each server in each scenario")
	flag.Parse()
	switch {
	case *short:
		cfg.times = briefly
	case *fullRun:
		cfg.times = full
	}
	if *repetitions > 0 {
		cfg.repetitions = *repetitions
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var err error
	if cfg.only, err = regexp.Compile(*only); err == nil {
		if cfg.servers, err = pick(*names); err == nil {
			for one := range strings.SplitSeq(*also, ",") {
				if name, program, ok := strings.Cut(one, "="); ok {
					cfg.servers = append(cfg.servers, &server{name: name, program: program})
				}
			}
			err = cfg.run(ctx, os.Stdout)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// pick returns the servers with the names.
func pick(names string) ([]*server, error) {
	var picked []*server
	for name := range strings.SplitSeq(names, ",") {
		all := allServers()
		i := slices.IndexFunc(all, func(s *server) bool { return s.name == name })
		if i < 0 {
			return nil, fmt.Errorf("there is no server %q", name)
		}
		picked = append(picked, all[i])
	}
	return picked, nil
}

// config is what to run.
type config struct {
	times
	servers  []*server
	only     *regexp.Regexp
	profiles string
}

// run measures and reports to w. What goes wrong with one server is in the
// report and in the error; the rest is measured all the same.
func (c *config) run(ctx context.Context, w io.Writer) error {
	folder, err := os.MkdirTemp("", "compare")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	for _, s := range c.servers {
		if err := s.build(ctx, folder); err != nil {
			return err
		}
	}
	all := report{}
	var errs []error
	for _, s := range scenarios() {
		if !c.only.MatchString(s.name) {
			continue
		}
		res, err := c.measure(ctx, s)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", s.name, err))
			fmt.Fprintf(w, "%s: %v\n\n", s.name, err)
			if ctx.Err() != nil {
				break
			}
		}
		all[s.name] = res
		res.write(w, s, c.servers)
	}
	all.writeGoals(w)
	return errors.Join(slices.DeleteFunc(errs, func(err error) bool { return errors.Is(err, errSkip) })...)
}

// measure runs a scenario on all servers in turn.
func (c *config) measure(ctx context.Context, s *scenario) (results, error) {
	res, errs := results{}, []error(nil)
	repetitions := c.repetitions
	if s.slow {
		repetitions = 1
	}
	for range repetitions {
		for _, server := range c.servers {
			if ctx.Err() != nil {
				return res, context.Cause(ctx)
			}
			one, err := c.once(s, server)
			if errors.Is(err, errSkip) {
				return res, err
			}
			if err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", server.name, err))
				continue
			}
			res[server.name] = append(res[server.name], one)
		}
	}
	return res, errors.Join(errs...)
}

// once runs a scenario on a fresh process of the server.
func (c *config) once(s *scenario, server *server) (one sample, err error) {
	var env []string
	if s.env != nil {
		more, done, err := s.env()
		if err != nil {
			return nil, err
		}
		defer done()
		env = more
	}
	p, err := server.start(s.mode, env...)
	if err != nil {
		return nil, err
	}
	if c.profiles != "" {
		p.profile = filepath.Join(c.profiles, s.name+"."+server.name)
	}
	one, err = s.run(p, c.times)
	return one, errors.Join(err, p.stop())
}
