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
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"time"

	"github.com/troupe-dev/troupe/internal/tests/peers"
)

// options are the flags.
type options struct {
	part    string // client, server, gateway, authorization or all
	only    *regexp.Regexp
	verbose bool
	client  string // the program to test; "" is ours
	url     string // of a running server to test; "" starts ours
	passes  int    // of the whole server suite over one process
	work    string // a folder for what the suite writes
}

func main() {
	o := options{}
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

// conformance runs all scenarios, or those that match, and reports whether all of
// them passed. The parts run one after the other: some scenarios measure time.
func conformance(ctx context.Context, o options) (ok bool, err error) {
	s, err := openSuite(ctx)
	if err != nil {
		return false, err
	}
	if o.work, err = os.MkdirTemp("", "conformance-"); err != nil {
		return false, err
	}
	defer os.RemoveAll(o.work)
	parts := map[string]func(context.Context, *suite, options) (total, error){"client": testClient, "server": testServer, "gateway": testGateway, "authorization": testAuthorization}
	if _, known := parts[o.part]; !known && o.part != "all" {
		return false, fmt.Errorf("there is no part %q", o.part)
	}
	ran, passed := 0, 0
	for _, name := range []string{"client", "server", "gateway", "authorization"} {
		if o.part != name && o.part != "all" {
			continue
		}
		t, err := parts[name](ctx, s, o)
		if err != nil {
			return false, fmt.Errorf("%s: %w", name, err)
		}
		ran, passed = ran+t.ran, passed+t.passed
	}
	if ran == 0 {
		return false, errors.New("no scenario matches")
	}
	return passed == ran, nil
}
