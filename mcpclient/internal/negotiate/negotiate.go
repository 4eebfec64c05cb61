package negotiate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/troupe-dev/troupe/actors/call"
	"github.com/troupe-dev/troupe/actors/conn"
	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient/internal/streamable"
)

// DefaultProbe is how long a server has to answer the first question before initialize is
// sent as well, or over HTTP instead: there a server that is slower is taken for a legacy
// one, which is right for most, and a modern one is found out when it refuses the handshake.
const DefaultProbe = 5 * time.Second

// Outcome is what client and server have agreed on.
type Outcome struct {
	Server       *mcp.Implementation
	Era          mcp.Era
	Version      mcp.Version
	Capabilities mcp.ServerCapabilities
	Instructions string
	Discovered   *mcp.DiscoverResult // of a modern server, else nil
}

// Web is the server over HTTP that a negotiation is with.
type Web interface {
	// Streamable returns the newest link, nil while the old transport is used.
	Streamable() *streamable.Link
	// LeaveAlone keeps the next attempt from being made before d has passed.
	LeaveAlone(d time.Duration)
	// Refuse notes that the server has refused the handshake by POST.
	Refuse(err error)
	// WantsAuthorization reports whether the server has to let us in first.
	WantsAuthorization(err error) bool
}

// Negotiator begins the connections to one server.
type Negotiator struct {
	Key      string        // of the server, in Eras
	Versions []mcp.Version // that may be used, newest first
	Probe    time.Duration
	Client   *mcp.Implementation
	Eras     *Eras
	Log      *slog.Logger
	Level    func() mcp.LogLevel            // that was asked for; "" for none
	Agreed   func(*Outcome)                 // called before the connection is ready
	Web      Web                            // nil for a server without a URL
	Fallback bool                           // the old transport over HTTP may be tried
	Declared func() *mcp.ClientCapabilities // what the server may ask of us
	// Unread reports whether the server's process has ended without reading anything.
	Unread func() bool
	// Mismatch makes the error for a server that has no revision in common with us.
	Mismatch func(ours, theirs []mcp.Version) error
}

// of returns the revisions of an era.
func (n *Negotiator) of(era mcp.Era) []mcp.Version {
	return slices.DeleteFunc(slices.Clone(n.Versions), func(v mcp.Version) bool { return v.Era() != era })
}

// Negotiate is the start of every connection (ERA-03).
func (n *Negotiator) Negotiate(ctx context.Context, s *conn.Session) error {
	legacy := n.of(mcp.EraLegacy)
	if len(legacy) == len(n.Versions) || len(legacy) > 0 && (n.oldSSE() || n.Eras.Get(n.Key) == mcp.EraLegacy) {
		err := n.handshake(ctx, s, legacy[0], nil)
		if n.Web != nil {
			return n.refused(ctx, s, err, false)
		}
		if err != nil && ctx.Err() == nil {
			n.Eras.Set(n.Key, mcp.EraUnknown) // it may have been upgraded meanwhile (ERA-01)
		}
		return err
	}
	if n.Web == nil && len(legacy) > 0 {
		return n.probePipe(ctx, s)
	}
	return n.discover(ctx, s)
}

// discover asks in the modern way and goes by the answer.
func (n *Negotiator) discover(ctx context.Context, s *conn.Session) error {
	res, err := n.ask(ctx, s)
	return n.verdict(ctx, s, discovered{res, err})
}

// verdict goes by the outcome of the first question.
func (n *Negotiator) verdict(ctx context.Context, s *conn.Session, d discovered) error {
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
		n.Log.Debug("the server answers the probe with a modern error", "error", err)
		if theirs == nil {
			return err // a capability or header that we cannot offer
		}
		return n.chooseFrom(ctx, s, theirs, nil)
	}
	return n.legacy(ctx, s, err, nil) // (c), whatever it is (ERA-04)
}

// ask sends server/discover. A result that is none (ERA-05) is an error.
func (n *Negotiator) ask(ctx context.Context, s *conn.Session) (*mcp.DiscoverResult, error) {
	members, err := modernMembers(n.of(mcp.EraModern)[0], n.Client, n.Declared())
	if err != nil {
		return nil, err
	}
	n.speak(n.of(mcp.EraModern)[0])
	s.Agree("", members) // a question, no agreement: a legacy server may ping meanwhile
	defer s.Agree("", nil)
	// A late answer finds no call and is ignored (ERA-08).
	limit := n.Probe
	if n.Web == nil || len(n.of(mcp.EraLegacy)) == 0 {
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
func (n *Negotiator) chooseFrom(ctx context.Context, s *conn.Session, theirs []mcp.Version, found *mcp.DiscoverResult) error {
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
	return conn.Permanent(n.Mismatch(slices.Clone(n.Versions), theirs))
}

// modern has nothing more to agree on.
func (n *Negotiator) modern(s *conn.Session, v mcp.Version, found *mcp.DiscoverResult) error {
	members, err := modernMembers(v, n.Client, n.Declared())
	if err != nil {
		return err
	}
	n.Eras.Set(n.Key, mcp.EraModern)
	n.speak(v)
	s.Agree(v, members)
	n.Agreed(&Outcome{
		Version: v, Era: mcp.EraModern, Capabilities: found.Capabilities,
		Server: found.Meta.ServerInfo(), Instructions: found.Instructions, Discovered: found,
	})
	return nil
}

// legacy follows a probe that a modern server would have answered otherwise. First is the
// answer to an initialize that was sent with the newest version; nil if none was.
func (n *Negotiator) legacy(ctx context.Context, s *conn.Session, why error, first *greeted) error {
	versions := n.of(mcp.EraLegacy)
	ended := errors.Is(why, call.ErrConnectionLost)
	if ended && n.Unread() {
		return why // it ended without having read the question
	}
	if len(versions) == 0 {
		if ended {
			return why // which says nothing about its era
		}
		return conn.Permanent(fmt.Errorf("the server is not a modern one, as %s was to be used: %w", n.Versions[0], why))
	}
	n.Log.Debug("the server is taken for a legacy one", "because", why)
	if n.Web != nil { // the verdict is kept once there is a session
		answered := !errors.Is(why, call.ErrTimeout) // a modern server may just be slow to wake up: it is asked again
		return n.refused(ctx, s, n.handshake(ctx, s, versions[0], nil), answered)
	}
	n.Eras.Set(n.Key, mcp.EraLegacy)
	if ended {
		return conn.Redial(why) // it did not survive the question (ERA-04)
	}
	err := n.handshake(ctx, s, versions[0], first)
	if err == nil || ctx.Err() != nil || errors.Is(err, conn.ErrPermanent) || n.Eras.Get(n.Key) == mcp.EraModern {
		return err
	}
	// The question may have put it out of step: ask a fresh process, without it.
	return conn.Redial(err)
}

// handshake is the start of a legacy session (LIFE-01 to LIFE-06). A server may
// answer with another version than the one offered, and some refuse what they do
// not know. First is the answer to an initialize with the offer that was sent before, nil
// if none was.
func (n *Negotiator) handshake(ctx context.Context, s *conn.Session, offer mcp.Version, first *greeted) error {
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
				return conn.Permanent(n.Mismatch(slices.Clone(n.Versions), data.Supported))
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
func (n *Negotiator) initialize(ctx context.Context, s *conn.Session, offer mcp.Version) (*mcp.InitializeResult, error) {
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

func (n *Negotiator) initializeRequest(offer mcp.Version) (*call.Request, error) {
	params, err := mcp.Marshal(&mcp.InitializeParams{ProtocolVersion: offer, Capabilities: *declaredIn(n.Declared(), offer), ClientInfo: *n.Client})
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
func (n *Negotiator) adopt(ctx context.Context, s *conn.Session, res *mcp.InitializeResult) error {
	v := res.ProtocolVersion
	if !slices.Contains(n.of(mcp.EraLegacy), v) {
		return conn.Permanent(n.Mismatch(n.of(mcp.EraLegacy), []mcp.Version{v}))
	}
	n.speak(v)
	s.Agree(v, nil)
	if err := s.Notify(mcp.NotificationInitialized, nil); err != nil {
		return fmt.Errorf("%s: %w", mcp.NotificationInitialized, err)
	}
	n.listen()
	n.Eras.Set(n.Key, mcp.EraLegacy)
	if level := n.Level(); level != "" && res.Capabilities.Logging != nil { // a new session has forgotten it (STDIO-24)
		if err := SetLevel(ctx, s.Do, level); err != nil {
			n.Log.Warn("the server does not take the log level", "error", err)
		}
	}
	server := res.ServerInfo // not all of the result is kept
	n.Agreed(&Outcome{
		Version: v, Era: mcp.EraLegacy, Capabilities: res.Capabilities,
		Server: &server, Instructions: res.Instructions,
	})
	return nil
}

// SetLevel is logging/setLevel (LOG-03).
func SetLevel(ctx context.Context, do func(context.Context, *call.Request) (call.Result, error), level mcp.LogLevel) error {
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

// declaredIn is what is declared in revision v. The Tasks extension is off unless the
// program opts in with [Options].Extensions (EXT-02), and means nothing in a legacy
// session (XTASK-22).
func declaredIn(caps *mcp.ClientCapabilities, v mcp.Version) *mcp.ClientCapabilities {
	d := caps.For(v)
	if _, ok := d.Extensions[mcp.ExtensionTasks]; ok && v.Era() != mcp.EraModern {
		d.Extensions = maps.Clone(d.Extensions)
		delete(d.Extensions, mcp.ExtensionTasks)
		if len(d.Extensions) == 0 {
			d.Extensions = nil
		}
	}
	return d
}
