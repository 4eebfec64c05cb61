// Command conformance runs the official conformance suite of MCP: against the client,
// where a program of ours (folder client) plays each scenario against a server of the
// suite, against the server, where the suite drives the fixture (folder server) at one
// URL, against a gateway (folder gateway) that has the fixture and two published
// servers behind it, and against our authorization server. It prints one line for each scenario and a verdict for each part, and exits
// with 1 if one has failed.
//
//	go run ./conformance [-run REGEXP] [-v] [-part client|server|gateway|authorization]
//
// A scenario passes if the suite found something right and nothing wrong, which is
// stricter than the suite itself; there is no list of failures to expect.
//
// The suite is pinned by package-lock.json and installed into the user's cache; only
// that needs the network. Without Node nothing is run, which fails if REQUIRE_PEERS
// is set.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"sync"
	"time"

	"github.com/troupe-dev/troupe/internal/tests/peers"
)

// options are the flags.
type options struct {
	part    string // client, server, gateway, authorization or all
	only    *regexp.Regexp
	verbose bool
	client  string    // the program to test; "" is ours
	url     string    // of a running server to test; "" starts ours
	passes  int       // of the whole server suite over one process
	work    string    // a folder for what the suite writes
	out     io.Writer // of the verdicts
}

func main() {
	o := options{out: os.Stdout}
	only := flag.String("run", "", "run only the scenarios whose REVISION/NAME matches")
	flag.StringVar(&o.part, "part", "all", "what to test: client, server, gateway, authorization or all")
	flag.BoolVar(&o.verbose, "v", false, "show what the suite says of a scenario that fails or warns")
	flag.StringVar(&o.client, "client", "", "the client program to test; ours is built if there is none")
	flag.StringVar(&o.url, "url", "", "a running server to test; ours is built and started if there is none")
	flag.IntVar(&o.passes, "passes", 2, "how often the server suite is run, one time after the other, over one process")
	limit := flag.Duration("timeout", 8*time.Minute, "bound on the whole run")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, *limit)
	defer cancel()

	var err error
	ok := false
	if o.only, err = regexp.Compile(*only); err == nil {
		ok, err = conformance(ctx, o)
	}
	switch {
	case errors.Is(err, peers.ErrNoNode) && os.Getenv("REQUIRE_PEERS") == "":
		fmt.Printf("conformance: skipped: %v\n", err)
	case err != nil:
		fmt.Printf("conformance: could not run: %v\n", err)
		os.Exit(1)
	case !ok:
		os.Exit(1)
	}
}

// part is what is tested.
type part struct {
	name string
	test func(context.Context, *suite, options) (total, error)
}

// stages are the parts in their order. Some scenarios measure time: only two suites work at
// once, which are the client's and the gateway's, that mostly waits, or both of the server's.
var stages = [][]part{
	{{"client", testClient}, {"gateway", testGateway}},
	{{"server", testServer}},
	{{"authorization", testAuthorization}},
}

// conformance runs all scenarios, or those that match, and reports whether all of
// them passed.
func conformance(ctx context.Context, o options) (ok bool, err error) {
	s, err := openSuite(ctx)
	if err != nil {
		return false, err
	}
	if o.work, err = os.MkdirTemp("", "conformance-"); err != nil {
		return false, err
	}
	defer os.RemoveAll(o.work)
	known, ran, passed := false, 0, 0
	for _, stage := range stages {
		stage = slices.DeleteFunc(slices.Clone(stage), func(p part) bool { return o.part != "all" && o.part != p.name })
		known = known || len(stage) > 0
		t, err := s.atOnce(ctx, o, stage)
		if err != nil {
			return false, err
		}
		ran, passed = ran+t.ran, passed+t.passed
	}
	switch {
	case !known:
		return false, fmt.Errorf("there is no part %q", o.part)
	case ran == 0:
		return false, errors.New("no scenario matches")
	}
	return passed == ran, nil
}

// atOnce tests the parts of a stage at once. Each prints its verdicts when it ends, so that
// they stand together; a part that is alone prints them as they come.
func (s *suite) atOnce(ctx context.Context, o options, stage []part) (count, error) {
	var (
		mu   sync.Mutex // guards what follows, and standard output
		sum  count
		errs []error
		all  sync.WaitGroup
	)
	for _, p := range stage {
		all.Go(func() {
			o, own := o, new(bytes.Buffer)
			if len(stage) > 1 {
				o.out = own
			}
			t, err := p.test(ctx, s, o)
			mu.Lock()
			defer mu.Unlock()
			_, _ = own.WriteTo(os.Stdout)
			sum.ran, sum.passed = sum.ran+t.ran, sum.passed+t.passed
			if err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", p.name, err))
			}
		})
	}
	all.Wait()
	return sum, errors.Join(errs...)
}
