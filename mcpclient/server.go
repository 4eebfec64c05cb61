package mcpclient

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/internal/hostconfig"
	"github.com/troupe-dev/troupe/internal/shellwords"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient/internal/commandname"
	"github.com/troupe-dev/troupe/mcpclient/internal/negotiate"
	"github.com/troupe-dev/troupe/mcpclient/internal/weblink"
)

// Connector makes a connection to a server in this process, such as an
// mcpserver.Server.
type Connector interface {
	Connect(mcp.Sink) (mcp.Link, error)
}

// Values of [Server].Protocol beside a revision's date.
const (
	ProtocolAuto   = negotiate.Auto   // find out: "auto"
	ProtocolLegacy = negotiate.Legacy // handshake, whatever revision comes of it: "legacy"
	ProtocolModern = negotiate.Modern // 2026-07-28 or later, else fail: "modern"
)

// Server says how to reach a server. One of Command, Connect and URL is set, or it was
// made by [Stream].
type Server struct {
	Name string // unique in a host

	Command string             // looked up in PATH; never a shell
	Args    []string           //
	Env     map[string]*string // added to a minimal environment; nil takes a variable away
	Dir     string             // "" is the current directory

	// URL is the address of a server over HTTP: http:, https:, or
	// unix:///path/of/socket#/path. Headers go with every request to it, as do those
	// that HeadersFunc, if set, returns: it is asked at each connect, and once more when
	// the server refuses a request with 401, which is then sent again. Their values are
	// secrets.
	URL         string
	Headers     map[string]string
	HeadersFunc func(context.Context) (map[string]string, error)
	// OAuth says how to be authorized at a URL, by [Options].Authorizer.
	OAuth OAuth
	// Transport pins how a URL is spoken to: auto, http or sse. "" is auto.
	Transport string

	Connect Connector         // a server in this process
	reach   *hostconfig.Reach // of a server of a file, before its variables were expanded
	inURL   map[string]string // likewise, the values in URL by the variables that they are of
	stream  func(context.Context) (io.ReadWriteCloser, error)

	// Protocol is auto, legacy, modern, or one revision's date. "" is auto.
	Protocol string
	// ConnectTimeout bounds an attempt to connect, CallTimeout a call, IdleTimeout
	// a call without progress. Zero is 60 s, 10 min and 60 s; the last two may be
	// negative: no limit.
	ConnectTimeout, CallTimeout, IdleTimeout time.Duration
	// MaxMessage bounds a message in bytes, over every transport. A longer one is skipped,
	// and the call that it answers ends with a [*MessageTooLongError]; the connection goes
	// on. Over HTTP it bounds what is sent, too. Zero means 16 MiB.
	MaxMessage int
	// Disabled keeps the definition and never connects.
	Disabled bool
	// Required makes it an error of [Host.Ready], and so of agent.Open, that the server
	// cannot be connected to. Without it a server that fails only lacks its tools.
	Required bool
	// Allow and Deny choose among the server's tools by their own names. A nil
	// Allow allows all; Deny wins.
	Allow, Deny []string
	// Trusted says that the user trusts the server's hints about its tools.
	Trusted bool
	// Serial is [AskOptions].Serial for this server.
	Serial bool
	// Instances bounds the processes of a command that calls are shared out to, where the
	// server would not say which of them it asks something for: one of a legacy revision,
	// if the program declares that it may be asked. The calls that are out on a process
	// then belong to one owner, see [Owned]; calls of others have another process, or wait
	// for one. Zero means 4, at most there are 64. All lists come from the first; further
	// ones are started when they are needed, and end after two minutes without a call. Of
	// a server in this process there are as many connections, of those zero means 1; of
	// others there is always one.
	Instances int
	// HeldInstances bounds the further ones while the calls on as many wait for a person, so that
	// questions without an answer do not keep the calls of others waiting. Zero means twice
	// Instances, or none where that is 1; below zero means none. At most there are 64.
	HeldInstances int
	// NoAsk says that the server asks nothing, neither of a person nor of a model: nothing
	// of that is declared to it, and calls of all owners go to one process at the same time.
	NoAsk bool
	// Sampling is how far this server may use a model of ours. Empty asks a person
	// before and after, unless [AskOptions].SampleFreely is set.
	Sampling SamplingMode
	// SamplingContext is [AskOptions].SamplingContext for this server.
	SamplingContext bool

	// File is where the definition comes from. Empty means the program itself,
	// which is consent to start the command; otherwise it takes a recorded one.
	File string
	// Hash identifies the definition, for consent: another hash is asked again.
	// Empty is computed. EarlierHash is Hash by the rule of an earlier version: consent that was recorded
	// for it still counts. Empty is none.
	Hash, EarlierHash string
	// NoInstructions keeps what the server says of itself from models: see
	// [Info].Instructions.
	NoInstructions bool
	// Warnings say what of the definition is ignored, and what to do about it. A host logs
	// them when it starts, and they are part of [Status].Warnings.
	Warnings []string
	// Err says why the definition cannot be used; connecting fails with it.
	Err error
}

// Command returns the definition of a server that is started as a process. Its
// name comes from the command line: "filesystem" from
// "npx -y @modelcontextprotocol/server-filesystem .".
func Command(name string, args ...string) Server {
	return Server{Name: commandname.Of(name, args), Command: name, Args: args}
}

// InProcess returns the definition of a server in this process.
func InProcess(name string, c Connector) Server { return Server{Name: name, Connect: c} }

// Stream returns the definition of a server at the other end of a byte stream: a Unix
// socket, a TCP or TLS connection, or anything else. Messages are framed as on stdio,
// one JSON text a line; a session lasts as long as its stream.
//
// Dial makes a stream for each connection, heeds ctx, and is called again with back-off
// after a stream has ended. A program that needs authentication does it there. What it returns
// is closed by the client; a Close must end a Read that waits.
//
//	mcpclient.Stream("tools", func(ctx context.Context) (io.ReadWriteCloser, error) {
//		var d net.Dialer
//		return d.DialContext(ctx, "unix", path)
//	})
func Stream(name string, dial func(ctx context.Context) (io.ReadWriteCloser, error)) Server {
	return Server{Name: name, stream: dial}
}

// Reach says for consent, in parts, all of the definition that is started, contacted or sent: first the command line
// or the URL, then "label: value", such as "env: PATH=/usr/bin". Variables of a file are not expanded. Literal
// values of the environment, of headers and of secrets are hidden where mask is set, as for a file of the user's
// own, but for variables that change what runs. A caller that shows it spells out hidden characters. It is nil for a
// server in this process and for a stream.
func (s *Server) Reach(mask bool) []string {
	if s.Command == "" && s.URL == "" {
		return nil
	}
	return s.written().Text(mask)
}

// written is the definition with its variables as they stand in its file.
func (s *Server) written() *hostconfig.Reach {
	if s.reach != nil {
		return s.reach
	}
	o := &s.OAuth
	return &hostconfig.Reach{
		Command: s.Command, Args: s.Args, Env: s.Env, Dir: s.Dir, URL: s.URL, Headers: s.Headers,
		Authorization: hostconfig.Authorization{
			Issuer: o.Issuer, MetadataURL: o.MetadataURL, ClientID: o.ClientID, ClientSecret: o.ClientSecret, ClientMetadataURL: o.ClientMetadataURL,
			RedirectURI: o.RedirectURI, AuthMethod: o.AuthMethod, Scopes: o.Scopes, Grant: string(o.Grant), KeyID: o.KeyID,
			Resource: o.Resource, NoResource: o.NoResource, IdentityProvider: o.IdentityProvider,
		},
	}
}

// CommandLine returns the command as a person would type it. Variables of a file are not expanded.
func (s *Server) CommandLine() string {
	w := s.written()
	return shellwords.Join(append([]string{w.Command}, w.Args...))
}

// Address returns URL as it is shown. Variables of a file are not expanded: they may be secret.
func (s *Server) Address() string { return s.written().URL }

// RunsHere reports whether a program is started on this computer: the server itself, or one that a server at a URL
// needs to be authorized (headersHelper, oauth.assertionCommand).
func (s *Server) RunsHere() bool {
	w := s.written()
	return w.Command != "" || w.HeadersHelper != "" || w.Authorization.AssertionCommand != ""
}

// hash identifies what would be run, and how.
func (s *Server) hash() string {
	if s.Hash != "" {
		return s.Hash
	}
	raw, err := mcp.Marshal(struct {
		Name, Command, Dir, URL, Protocol string
		Args                              []string
		Env                               map[string]*string
		InProcess                         string
	}{s.Name, s.Command, s.Dir, s.URL, s.Protocol, s.Args, s.Env, fmt.Sprintf("%p", s.Connect)})
	if err != nil {
		return "" // strings with invalid UTF-8: never the hash of anything approved
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:])
}

// check says what is wrong with a definition.
func (s *Server) check() error {
	ways := 0
	for _, set := range []bool{s.Command != "", s.URL != "", s.Connect != nil, s.stream != nil} {
		if set {
			ways++
		}
	}
	switch {
	case s.Name == "":
		return errors.New("mcpclient: a server without a name")
	case s.Err != nil:
		return nil // that is reported when it is to be used
	case ways != 1:
		return &ServerError{Server: s.Name, Err: fmt.Errorf("exactly one of command, URL and connector must be set")}
	}
	if s.Instances < 0 || s.Instances > maxInstances {
		return &ServerError{Server: s.Name, Err: fmt.Errorf("instances is %d, want 1 to %d, or 0 for the default", s.Instances, maxInstances)}
	}
	if s.HeldInstances > maxInstances {
		return &ServerError{Server: s.Name, Err: fmt.Errorf("heldInstances is %d, want at most %d, or 0 for the default", s.HeldInstances, maxInstances)}
	}
	if _, err := negotiate.Versions(s.Protocol); err != nil {
		return &ServerError{Server: s.Name, Err: err}
	}
	if s.MaxMessage < 0 || s.MaxMessage > maxMaxMessage {
		return &ServerError{Server: s.Name, Err: fmt.Errorf("the largest message is %d bytes: want 1 to %d, or 0 for %d", s.MaxMessage, maxMaxMessage, DefaultMaxMessage)}
	}
	if !s.Sampling.valid() {
		return &ServerError{Server: s.Name, Err: fmt.Errorf("unknown sampling %.40q: want ask, allow or deny", s.Sampling)}
	}
	if err := s.checkURL(); err != nil {
		return &ServerError{Server: s.Name, Err: err}
	}
	return nil
}

// origin says where a server is, as the configuration has it.
func (s *Server) origin() string {
	switch {
	case s.Command != "":
		return s.CommandLine()
	case s.Connect != nil:
		return "in this process"
	case s.stream != nil:
		return "a byte stream"
	}
	return s.Origin()
}

// Origin returns the scheme and the host of [Server.Address], or the path of its socket, for people: without a query
// where variables stand in it. It is empty without a URL.
func (s *Server) Origin() string {
	address := s.Address()
	if strings.Contains(address, "$") {
		address, _, _ = strings.Cut(address, "?")
		return address
	}
	u, err := url.Parse(address)
	if err != nil || u.Scheme == "" {
		return address
	}
	if u.Host == "" { // a socket
		return u.Scheme + "://" + u.Path
	}
	return u.Scheme + "://" + u.Host
}

// SamplingMode says how far a server may use a model of ours.
type SamplingMode string

// The sampling modes.
const (
	SamplingDefault SamplingMode = ""      // as [AskOptions].SampleFreely says
	SamplingAsk     SamplingMode = "ask"   // a person sees each request, and each answer, before it goes on
	SamplingAllow   SamplingMode = "allow" // within the limits, and no person looks
	SamplingDeny    SamplingMode = "deny"  // it is not even declared to the server
)

func (m SamplingMode) valid() bool {
	return slices.Contains([]SamplingMode{SamplingDefault, SamplingAsk, SamplingAllow, SamplingDeny}, m)
}

// Values of [Server].Transport for a server with a URL.
const (
	TransportAuto = "auto" // Streamable HTTP, or the old one if the server only has that
	TransportHTTP = "http" // Streamable HTTP
	TransportSSE  = "sse"  // HTTP+SSE of 2024-11-05
)

// checkURL says what is wrong with what only servers over HTTP have.
func (s *Server) checkURL() error {
	switch s.Transport {
	case "", TransportAuto, TransportHTTP:
	case TransportSSE:
		if v := mcp.Version(s.Protocol); s.Protocol == ProtocolModern || v.Era() == mcp.EraModern {
			return fmt.Errorf("the transport sse has no revision %s", s.Protocol) // SSE-12
		}
	default:
		return fmt.Errorf("unknown transport %.40q: want auto, http or sse", s.Transport)
	}
	return nil
}

// eraKey is what a verdict on the server's era is kept under: its endpoint over HTTP,
// which all clients of this server share, else its definition (ERA-01).
func (s *Server) eraKey() string {
	if s.URL == "" {
		return s.hash()
	}
	return "at " + weblink.Endpoint(s.URL)
}

// Bounds on the instances of a server.
const (
	defaultInstances = 4
	maxInstances     = hostconfig.MaxInstances
)

// mostInstances is how many processes there may be of a definition.
func (s *Server) mostInstances() int {
	switch {
	case s.Command != "":
		return min(cmp.Or(s.Instances, defaultInstances), maxInstances)
	case s.Connect != nil:
		return min(max(s.Instances, 1), maxInstances)
	}
	return 1
}

// heldInstances is how many more there may be while as many are held by questions to people.
func (s *Server) heldInstances() int {
	switch most := s.mostInstances(); {
	case s.HeldInstances != 0:
		return min(max(s.HeldInstances, 0), maxInstances)
	case most > 1:
		return min(2*most, maxInstances)
	}
	return 0
}

// DefaultMaxMessage is how many bytes a message of a server may have, unless
// [Server].MaxMessage says otherwise.
const DefaultMaxMessage = 16 << 20

// maxMaxMessage bounds what a definition may ask for: lists and results are decoded whole.
const maxMaxMessage = 1 << 30

// maxMessage is how many bytes a message may have.
func (s *Server) maxMessage() int {
	if s.MaxMessage > 0 {
		return s.MaxMessage
	}
	return DefaultMaxMessage
}

// tooLong makes the error of a message.
func (s *Server) tooLong(certain bool) error {
	return &MessageTooLongError{Server: s.Name, Max: s.maxMessage(), Certain: certain}
}

// allows reports whether the definition lets a tool be used.
func (s *Server) allows(tool string) bool {
	return !slices.Contains(s.Deny, tool) && (s.Allow == nil || slices.Contains(s.Allow, tool))
}
