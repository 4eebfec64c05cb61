// operations.go: what operators ask of a process, on a listener of its own.

package jobapi

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"

	"github.com/troupe-dev/troupe/internal/bearer"
	"github.com/troupe-dev/troupe/internal/clip"
)

// OperationsOptions say what operators get. Metrics is required.
type OperationsOptions struct {
	// Token is wanted for /metrics. Empty lets all in that come by the name of this machine, so that no
	// page of a browser does by a name of its own (SECA-1).
	Token string
	// Ready says why the process takes no work. Nil is always ready.
	Ready func(context.Context) error
	// Providers returns how the providers of models stand. Nil leaves it out.
	Providers func() []Provider
	Metrics   http.Handler
}

// NewOperations answers GET /healthz, /readyz and /metrics as an [Intake] does.
func NewOperations(o OperationsOptions) (http.Handler, error) {
	token := bearer.Token{}
	if o.Token != "" {
		if err := bearer.Check(o.Token); err != nil {
			return nil, fmt.Errorf("the token of the metrics: %w", err)
		}
		token = bearer.New(o.Token)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", healthy)
	mux.HandleFunc("GET /readyz", readiness(o.Ready, o.Providers))
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, r *http.Request) {
		if o.Token != "" && !token.In(r) {
			unauthorized(w)
			return
		}
		o.Metrics.ServeHTTP(w, r)
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		problem(w, http.StatusNotFound, "there is no such path; there are GET /healthz, /readyz and /metrics")
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if o.Token == "" && !namesThisMachine(r.Host) {
			problem(w, http.StatusMisdirectedRequest, "this is reached by an address, or as localhost")
			return
		}
		mux.ServeHTTP(w, r)
	}), nil
}

// namesThisMachine reports whether a Host is an address or localhost, which no other name leads to.
func namesThisMachine(host string) bool {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = strings.Trim(host, "[]")
	}
	_, err = netip.ParseAddr(name)
	return err == nil || strings.EqualFold(name, "localhost")
}

func unauthorized(w http.ResponseWriter) {
	w.Header().Set("WWW-Authenticate", `Bearer realm="troupe"`)
	problem(w, http.StatusUnauthorized, "want the header Authorization: Bearer TOKEN")
}

// readiness answers GET /readyz. Either may be nil.
func readiness(ready func(context.Context) error, providers func() []Provider) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if ready != nil {
			if err := ready(r.Context()); err != nil {
				problem(w, http.StatusServiceUnavailable, err.Error())
				return
			}
		}
		answer := Readiness{Status: "ready"}
		if providers != nil {
			answer.Away = away(providers())
		}
		writeJSON(w, http.StatusOK, "application/json", answer)
	}
}

// away are the providers that do not work.
func away(providers []Provider) (all []Away) {
	for _, p := range providers {
		if p.Class != "" && len(all) < maxProviders {
			all = append(all, Away{clip.Name(p.Name), p.Class, p.Since.UTC(), p.Until.UTC()})
		}
	}
	return all
}
