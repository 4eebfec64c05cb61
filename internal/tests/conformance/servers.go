package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/troupe-dev/troupe/internal/tests/peers"
)

// ways are how the fixture is run: handlers that ask are kept between the rounds, or
// run again from the top in each. The client must not notice.
var ways = []struct {
	name string
	args []string
}{
	{"parking", nil},
	{"no parking", []string{"-park=false"}},
}

// testServer drives one process at one URL through all revisions, several times in a
// row. Within a process the scenarios run one after the other, as they change the
// lists that others read; the two ways are processes of their own, at the same time.
func testServer(ctx context.Context, s *suite, o options) (total, error) {
	plan, left, err := s.plan(ctx, servers)
	if err != nil {
		return total{}, err
	}
	plan = slices.DeleteFunc(plan, func(sc scenario) bool { return !o.only.MatchString(sc.String()) })
	var t total
	begun := time.Now()
	if o.url != "" {
		err = s.passes(ctx, o, plan, "url", o.url, func(v *verdict) { t.add(v, o, "") })
	} else {
		err = s.fixtures(ctx, o, plan, &t)
	}
	for _, line := range left {
		fmt.Fprintln(o.out, line)
	}
	fmt.Fprint(o.out, t.lines("server", time.Since(begun)))
	return t, err
}

// fixtures runs the suite against the fixture in each way.
func (s *suite) fixtures(ctx context.Context, o options, plan []scenario, t *total) error {
	program, err := peers.BuildFixture(ctx, o.work)
	if err != nil {
		return err
	}
	var (
		mu   sync.Mutex // guards t and the output
		all  sync.WaitGroup
		errs = make([]error, len(ways))
	)
	for i, way := range ways {
		all.Go(func() {
			f, err := peers.StartFixture(ctx, program, way.args...)
			if err != nil {
				errs[i] = err
				return
			}
			err = s.passes(ctx, o, plan, fmt.Sprint("way", i), f.URL, func(v *verdict) {
				mu.Lock()
				defer mu.Unlock()
				t.add(v, o, fmt.Sprintf("%-10s  ", way.name))
			})
			errs[i] = errors.Join(err, f.Stop())
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// passes runs the plan as often as it was asked for.
func (s *suite) passes(ctx context.Context, o options, plan []scenario, name, url string, each func(*verdict)) error {
	for pass := range o.passes {
		for _, rev := range revisions {
			part := slices.DeleteFunc(slices.Clone(plan), func(sc scenario) bool { return sc.Revision != rev })
			dir := filepath.Join(o.work, fmt.Sprintf("%s-%d-%s", name, pass, rev))
			if o.only.String() == "" {
				all := slices.DeleteFunc(slices.Clone(part), func(sc scenario) bool { return sc.Alone })
				for _, v := range s.driveAll(ctx, rev, all, url, dir) {
					each(v)
				}
				part = slices.DeleteFunc(part, func(sc scenario) bool { return !sc.Alone })
			}
			for _, sc := range part {
				each(s.drive(ctx, sc, url, filepath.Join(dir, sc.Name)))
			}
		}
	}
	return ctx.Err()
}

// driveTime bounds a revision as a whole: the suite bounds each scenario by itself.
const driveTime = 3 * time.Minute

// drive runs one scenario against a server.
func (s *suite) drive(ctx context.Context, sc scenario, url, dir string) *verdict {
	begun := time.Now()
	log, broken := s.run(ctx, playTime, "server", "--url", url, "--scenario", sc.Name, "--spec-version", sc.Revision, "--force", "-o", dir)
	v := &verdict{Scenario: sc, Log: log, Broken: broken, Took: time.Since(begun)}
	v.read(dir)
	return v
}

// driveAll runs all scenarios of a revision against a server in one process of the
// suite, which takes seconds where one for each takes a minute.
func (s *suite) driveAll(ctx context.Context, revision string, plan []scenario, url, dir string) []*verdict {
	args := []string{"server", "--url", url, "-o", dir}
	if hasRequirements(revision) {
		args = append(args, "--requirements", revision) // and what is run without being counted
	} else {
		args = append(args, "--suite", "all", "--spec-version", revision)
	}
	begun := time.Now()
	log, broken := s.run(ctx, driveTime, args...)
	took := time.Since(begun) / time.Duration(max(1, len(plan)))
	var verdicts []*verdict
	for _, sc := range plan {
		v := &verdict{Scenario: sc, Broken: broken, Took: took}
		if _, own, found := strings.Cut(log, "=== Running scenario: "+sc.Name+" ===\n"); found {
			v.Log, _, _ = strings.Cut(own, "\n=== ")
		}
		if folders, _ := filepath.Glob(filepath.Join(dir, "server-"+sc.Name+"-20*")); len(folders) == 1 {
			v.read(folders[0])
		} else {
			v.Broken = fmt.Sprintf("the suite left %d results: %s", len(folders), broken)
		}
		verdicts = append(verdicts, v)
	}
	return verdicts
}
