package mcpclient

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/troupe-dev/troupe/actors/call"
	"github.com/troupe-dev/troupe/actors/conn"
	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/mcp"
)

// defaultProbe is how long a server has to answer the first question before initialize is
// sent as well, or over HTTP instead: there a server that is slower is taken for a legacy
// one, which is right for most and found out for the rest when it refuses the handshake.
const defaultProbe = 5 * time.Second

// negotiator finds out what a server speaks and agrees with it on a version.
type negotiator struct {
	hash     string
	versions []mcp.Version // that may be used, newest first
	probe    time.Duration
	client   *mcp.Implementation
	eras     *eraCache
	log      *slog.Logger
	level    func() mcp.LogLevel            // that was asked for; "" for none
	agreed   func(*Info)                    // called before the connection is ready
	web      *web                           // of a server with a URL, else nil
	fallback bool                           // the old transport over HTTP may be tried
	declared func() *mcp.ClientCapabilities // what the server may ask of us
	unread   func() bool                    // the server's process has ended and had read nothing
}

// legacyVersions returns those that begin with a handshake.
func (n *negotiator) of(era mcp.Era) []mcp.Version {
	return slices.DeleteFunc(slices.Clone(n.versions), func(v mcp.Version) bool { return v.Era() != era })
}

// negotiate is the start of every connection (ERA-03).
func (n *negotiator) negotiate(ctx context.Context, s *conn.Session) error {
	legacy := n.of(mcp.EraLegacy)
	if len(legacy) == len(n.versions) || len(legacy) > 0 && (n.oldSSE() || n.eras.get(n.hash) == mcp.EraLegacy) {
		err := n.handshake(ctx, s, legacy[0], nil)
		if n.web != nil {
			return n.refused(ctx, s, err, false)
		}
		if err != nil && ctx.Err() == nil {
			n.eras.set(n.hash, mcp.EraUnknown) // it may have been upgraded meanwhile (ERA-01)
		}
		return err
	}
	if n.web == nil && len(legacy) > 0 {
		return n.probePipe(ctx, s)
	}
	return n.discover(ctx, s)
}

// discover asks in the modern way and goes by the answer.
func (n *negotiator) discover(ctx context.Context, s *conn.Session) error {
	res, err := n.ask(ctx, s)
	return n.verdict(ctx, s, discovered{res, err})
}

// verdict goes by the outcome of the first question.
func (n *negotiator) verdict(ctx context.Context, s *conn.Session, d discovered) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	err := d.err
	if err == nil {
		return n.chooseFrom(ctx, s, d.res.SupportedVersions, d.res)
	}
	if err := n.noVerdict(err); err != nil {
		return err
	}
	if theirs, modern := modernError(err); modern { // (b)
		n.log.Debug("the server answers the probe with a modern error", "error", err)
		if theirs == nil {
			return err // a capability or header that we can not offer
		}
		return n.chooseFrom(ctx, s, theirs, nil)
	}
	return n.legacy(ctx, s, err, nil) // (c), whatever it is (ERA-04)
}

// ask sends server/discover. A result that is none (ERA-05) is an error.
func (n *negotiator) ask(ctx context.Context, s *conn.Session) (*mcp.DiscoverResult, error) {
	members, err := modernMembers(n.of(mcp.EraModern)[0], n.client, n.declared())
	if err != nil {
		return nil, err
	}
	n.speak(n.of(mcp.EraModern)[0])
	s.Agree("", members) // a question, no agreement: a legacy server may ping meanwhile
	defer s.Agree("", nil)
	// A late answer finds no call and is ignored (ERA-08).
	limit := n.probe
	if n.web == nil || len(n.of(mcp.EraLegacy)) == 0 {
		limit = -1 // there is nothing else to try: a slow start has the time of the connection
	}
	raw, err := s.Do(ctx, &call.Request{Method: mcp.MethodDiscover, Idle: -1, Max: limit})
	if err != nil {
		return nil, err
	}
	return readDiscovered(raw.Raw)
}

// readDiscovered reads the result of server/discover.
func readDiscovered(raw []byte) (*mcp.DiscoverResult, error) {
	res := new(mcp.DiscoverResult)
	if err := mcp.Unmarshal(raw, res); err != nil {
		return nil, fmt.Errorf("%s: %w", mcp.MethodDiscover, err)
	}
	if res.ResultType != "" && res.ResultType != mcp.ResultComplete { // BASE-12
		return nil, fmt.Errorf("%s: unknown resultType %.40q", mcp.MethodDiscover, res.ResultType)
	}
	return res, nil
}

// modernError reports whether err is one that only modern servers give (ERA-02),
// with the versions it lists.
func modernError(err error) (supported []mcp.Version, modern bool) {
	e, ok := errors.AsType[*mcp.Error](err)
	if !ok {
		return nil, false
	}
	switch e.Code {
	case mcp.CodeHeaderMismatch:
		return nil, true
	case mcp.CodeMissingClientCapability:
		_, ok := e.MissingCapability()
		return nil, ok
	case mcp.CodeUnsupportedVersion:
		data, ok := e.UnsupportedVersion()
		return data.Supported, ok
	}
	return nil, false
}

// chooseFrom goes on with the newest common version: a modern one commits
// (ERA-07), a legacy one takes a handshake (ERA-06). found is nil if the server
// has refused to be discovered.
func (n *negotiator) chooseFrom(ctx context.Context, s *conn.Session, theirs []mcp.Version, found *mcp.DiscoverResult) error {
	if v, ok := mcp.Newest(n.of(mcp.EraModern), theirs); ok {
		if found == nil {
			// It was asked with a version that it says it supports; once more, then give up (MOD-03).
			var err error
			if found, err = n.ask(ctx, s); err != nil {
				return err
			}
		}
		return n.modern(s, v, found)
	}
	if v, ok := mcp.Newest(n.of(mcp.EraLegacy), theirs); ok {
		return n.handshake(ctx, s, v, nil)
	}
	return conn.Permanent(&VersionError{Ours: n.versions, Theirs: theirs})
}

// modern has nothing more to agree on.
func (n *negotiator) modern(s *conn.Session, v mcp.Version, found *mcp.DiscoverResult) error {
	members, err := modernMembers(v, n.client, n.declared())
	if err != nil {
		return err
	}
	n.eras.set(n.hash, mcp.EraModern)
	n.speak(v)
	s.Agree(v, members)
	n.agreed(&Info{
		Version: v, Era: mcp.EraModern, Capabilities: found.Capabilities,
		Server: found.Meta.ServerInfo(), Instructions: found.Instructions, Discovered: found,
	})
	return nil
}

// legacy follows a probe that a modern server would have answered otherwise. First is the
// answer to an initialize that was sent with the newest version; nil if none was.
func (n *negotiator) legacy(ctx context.Context, s *conn.Session, why error, first *greeted) error {
	versions := n.of(mcp.EraLegacy)
	ended := errors.Is(why, call.ErrConnectionLost)
	if ended && n.unread() {
		return why // it ended without having read the question
	}
	if len(versions) == 0 {
		if ended {
			return why // which says nothing about its era
		}
		return conn.Permanent(fmt.Errorf("the server is not a modern one, as %s was to be used: %w", n.versions[0], why))
	}
	n.log.Debug("the server is taken for a legacy one", "because", why)
	if n.web != nil { // the verdict is kept once there is a session
		answered := !errors.Is(why, call.ErrTimeout) // a modern server may just be slow to wake up: it is asked again
		return n.refused(ctx, s, n.handshake(ctx, s, versions[0], nil), answered)
	}
	n.eras.set(n.hash, mcp.EraLegacy)
	if ended {
		return conn.Redial(why) // it did not survive the question (ERA-04)
	}
	err := n.handshake(ctx, s, versions[0], first)
	if err == nil || ctx.Err() != nil || conn.IsPermanent(err) || n.eras.get(n.hash) == mcp.EraModern {
		return err
	}
	// The question may have put it out of step: ask a fresh process, without it.
	return conn.Redial(err)
}

// handshake is the start of a legacy session (LIFE-01 to LIFE-06). A server may
// answer with another version than the one offered, and some refuse what they do
// not know. First is the answer to an initialize with the offer that was sent before, nil
// if none was.
func (n *negotiator) handshake(ctx context.Context, s *conn.Session, offer mcp.Version, first *greeted) error {
	legacy := n.of(mcp.EraLegacy)
	for range mcp.LegacyVersions() {
		var res *mcp.InitializeResult
		var err error
		if first != nil {
			res, err, first = first.res, first.err, nil
		} else {
			res, err = n.initialize(ctx, s, offer)
		}
		if err == nil {
			return n.adopt(ctx, s, res)
		}
		e, ok := errors.AsType[*mcp.Error](err)
		if !ok || ctx.Err() != nil {
			return err
		}
		data, listed := e.UnsupportedVersion()
		switch {
		case listed: // LIFE-11, MOD-10
			if v, ok := mcp.Newest(n.of(mcp.EraModern), data.Supported); ok && e.Code == mcp.CodeUnsupportedVersion {
				return n.chooseFrom(ctx, s, []mcp.Version{v}, nil)
			}
			next, ok := mcp.Newest(legacy, data.Supported)
			if !ok || next == offer {
				return conn.Permanent(&VersionError{Ours: n.versions, Theirs: data.Supported})
			}
			offer = next
		case e.Code == mcp.CodeInvalidParams:
			i := slices.Index(legacy, offer)
			if i+1 >= len(legacy) {
				return err
			}
			offer = legacy[i+1]
		default:
			return err
		}
	}
	return fmt.Errorf("the server refused every version")
}

// initialize sends the request. It is never cancelled (LIFE-08): the connection's
// own time limit closes the transport instead.
func (n *negotiator) initialize(ctx context.Context, s *conn.Session, offer mcp.Version) (*mcp.InitializeResult, error) {
	req, err := n.initializeRequest(offer)
	if err != nil {
		return nil, err
	}
	n.speak("")
	raw, err := s.Do(ctx, req)
	if err != nil {
		return nil, err
	}
	return readInitialized(raw.Raw)
}

func (n *negotiator) initializeRequest(offer mcp.Version) (*call.Request, error) {
	params, err := mcp.Marshal(&mcp.InitializeParams{ProtocolVersion: offer, Capabilities: *declaredIn(n.declared(), offer), ClientInfo: *n.client})
	return &call.Request{Method: mcp.MethodInitialize, Params: params, Idle: -1, Max: -1}, err
}

// readInitialized reads the result of initialize.
func readInitialized(raw []byte) (*mcp.InitializeResult, error) {
	res := new(mcp.InitializeResult)
	if err := mcp.Unmarshal(raw, res); err != nil {
		return nil, fmt.Errorf("%s: %w", mcp.MethodInitialize, err)
	}
	return res, nil
}

// adopt goes on in the version that the server has chosen (LIFE-04).
func (n *negotiator) adopt(ctx context.Context, s *conn.Session, res *mcp.InitializeResult) error {
	v := res.ProtocolVersion
	if !slices.Contains(n.of(mcp.EraLegacy), v) {
		return conn.Permanent(&VersionError{Ours: n.of(mcp.EraLegacy), Theirs: []mcp.Version{v}})
	}
	n.speak(v)
	s.Agree(v, nil)
	if err := s.Notify(mcp.NotificationInitialized, nil); err != nil {
		return fmt.Errorf("%s: %w", mcp.NotificationInitialized, err)
	}
	n.listen()
	n.eras.set(n.hash, mcp.EraLegacy)
	if level := n.level(); level != "" && res.Capabilities.Logging != nil { // a new session has forgotten it (STDIO-24)
		if err := setLevel(ctx, s.Do, level); err != nil {
			n.log.Warn("the server does not take the log level", "error", err)
		}
	}
	server := res.ServerInfo // not all of the result is kept
	n.agreed(&Info{
		Version: v, Era: mcp.EraLegacy, Capabilities: res.Capabilities,
		Server: &server, Instructions: res.Instructions,
	})
	return nil
}

// setLevel is logging/setLevel (LOG-03).
func setLevel(ctx context.Context, do func(context.Context, *call.Request) (call.Result, error), level mcp.LogLevel) error {
	params, err := mcp.Marshal(&mcp.SetLevelParams{Level: level})
	if err != nil {
		return err
	}
	_, err = do(ctx, &call.Request{Method: mcp.MethodSetLevel, Params: params, Safe: true})
	return err
}

// modernMembers are the members that the _meta of each modern request has (META-06).
func modernMembers(v mcp.Version, client *mcp.Implementation, caps *mcp.ClientCapabilities) ([]byte, error) {
	members := mcp.Meta{}
	for key, value := range map[string]any{
		mcp.MetaProtocolVersion:    v,
		mcp.MetaClientInfo:         client,
		mcp.MetaClientCapabilities: declaredIn(caps, v),
	} {
		if err := members.Set(key, value); err != nil {
			return nil, err
		}
	}
	raw, err := jsonx.Marshal(members)
	if err != nil {
		return nil, fmt.Errorf("describing the client: %w", err)
	}
	return raw[1 : len(raw)-1], nil
}
