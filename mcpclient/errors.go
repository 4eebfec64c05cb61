package mcpclient

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/actors/call"
	"github.com/troupe-dev/troupe/internal/browser"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient/internal/asks"
)

var (
	// ErrNotApproved is what a [NotApprovedError] is.
	ErrNotApproved = errors.New("mcpclient: the server is not approved")
	// ErrUnsupported is what an [UnsupportedError] is.
	ErrUnsupported = errors.New("mcpclient: the server does not support this")
	// ErrVersion is what a [VersionError] is.
	ErrVersion = errors.New("mcpclient: no common protocol version")
	// ErrUnknownTool is returned by [Host.Call] for a name that is not in the catalogue.
	ErrUnknownTool = errors.New("mcpclient: unknown tool")
	// ErrInput is what an [InputError] is.
	ErrInput = errors.New("mcpclient: the server asks for what it cannot get")
	// ErrRefused is an [InputError], too: the user, or a limit, has refused a question
	// without whose answer the call cannot go on.
	ErrRefused = errors.New("mcpclient: a question of the server was refused")
	// ErrNotSent is an error of a call, too, that was refused before its server was
	// told of it.
	ErrNotSent = errors.New("mcpclient: the call was not sent")
	// ErrNoBrowser is an error of [AskOptions.OpenURL]: no browser can be started here.
	ErrNoBrowser = browser.ErrNoBrowser
	// ErrPageGivenUp ends a call whose page a person has given up.
	ErrPageGivenUp = errors.New("the page was given up")
	// ErrTimeout is what a [TimeoutError] is.
	ErrTimeout = call.ErrTimeout
	// ErrConnectionLost is what a [LostError] is.
	ErrConnectionLost = call.ErrConnectionLost
	// ErrBusy refuses a call at a limit: of calls under way, or of what waits to be written.
	ErrBusy = call.ErrBusy
	// ErrInvalidResponse ends a call whose answer breaks the protocol.
	ErrInvalidResponse = call.ErrInvalidResponse
	// ErrClosed is returned after Close.
	ErrClosed = errors.New("mcpclient: closed")
)

// notSentError makes an error [ErrNotSent] without a word more.
type notSentError struct{ error }

func (e *notSentError) Is(target error) bool { return target == ErrNotSent }
func (e *notSentError) Unwrap() error        { return e.error }

// ServerError is a failure of one server. The others go on without it.
type ServerError struct {
	Server string // its name in the configuration
	Method string // the MCP method under way; "" while connecting
	Err    error
}

func (e *ServerError) Error() string {
	if e.Method == "" {
		return fmt.Sprintf("server %s: %v", e.Server, e.Err)
	}
	// Errors of calls begin with the method themselves.
	if text := e.Err.Error(); strings.HasPrefix(text, e.Method+":") {
		return fmt.Sprintf("server %s: %s", e.Server, text)
	}
	return fmt.Sprintf("server %s: %s: %v", e.Server, e.Method, e.Err)
}

// Unwrap returns the failure.
func (e *ServerError) Unwrap() error { return e.Err }

// NotApprovedError refuses to start a command, or to contact a URL, that comes from a
// file.
type NotApprovedError struct {
	Server, File string
	Runs         bool     // it would run a program on this computer
	Contacts     bool     // it would contact a URL
	Reach        []string // what it would run or contact, and with what: see [Server.Reach]
	Err          error    // what the consent said; nil if it was not asked for
}

func (e *NotApprovedError) Error() string {
	does := "contact"
	switch {
	case e.Runs && e.Contacts:
		does = "run a program on this computer, and contact"
	case e.Runs:
		does = "run"
	}
	text := fmt.Sprintf("server %s of %s is not approved; it would %s: %s; approve it with: troupe mcp approve %s",
		e.Server, e.File, does, strings.Join(e.Reach, "; "), e.Server)
	if e.Err != nil {
		text += " (" + e.Err.Error() + ")"
	}
	return text
}

// Is reports that the error is [ErrNotApproved].
func (e *NotApprovedError) Is(target error) bool { return target == ErrNotApproved }

// Unwrap returns what the consent said.
func (e *NotApprovedError) Unwrap() error { return e.Err }

// UnsupportedError says that the server did not declare what a method needs, or
// that its revision does not have it.
type UnsupportedError struct {
	Method     string
	Capability string // that is missing; "" if the revision lacks the method
	Version    mcp.Version
}

func (e *UnsupportedError) Error() string {
	if e.Capability == "" {
		return fmt.Sprintf("%s does not exist in revision %s", e.Method, e.Version)
	}
	return fmt.Sprintf("%s: the server has not declared %s", e.Method, e.Capability)
}

// Is reports that the error is [ErrUnsupported].
func (e *UnsupportedError) Is(target error) bool { return target == ErrUnsupported }

// VersionError says that client and server have no version in common.
type VersionError struct {
	Ours, Theirs []mcp.Version
}

func (e *VersionError) Error() string {
	return fmt.Sprintf("no common protocol version: we can use %v, the server %v", e.Ours, e.Theirs)
}

// Is reports that the error is [ErrVersion].
func (e *VersionError) Is(target error) bool { return target == ErrVersion }

// ExitError says how a server's process ended.
type ExitError struct {
	Status string // "exit status 1", "signal: killed", or what it did instead
	Stderr string // the last lines it wrote, at most 2 KiB
	Err    error  // what was noticed first; may be nil
}

func (e *ExitError) Error() string {
	text := "the server process ended: " + e.Status
	if e.Status == "" {
		text = e.Err.Error()
	}
	if e.Stderr != "" {
		text += "; its last words: " + strings.ReplaceAll(e.Stderr, "\n", " | ")
	}
	return text
}

// Unwrap returns what was noticed first.
func (e *ExitError) Unwrap() error { return e.Err }

// InputError ends a call in 2026-07-28 because of what the server asks for in its
// answer: no server waits for an answer there.
type InputError struct {
	Method   string // of the call
	Question string // the method of the question; "" if none is to blame
	Reason   string
	Refused  bool // it could have been answered, but was not to be: [ErrRefused]
}

func (e *InputError) Error() string {
	if e.Question == "" {
		return "invalid response: " + e.Reason
	}
	return fmt.Sprintf("the server asks for input that it cannot get: %s: %s", e.Question, e.Reason)
}

// Is reports that the error is [ErrInput], and [ErrRefused] if it was refused.
func (e *InputError) Is(target error) bool {
	return target == ErrInput || e.Refused && target == ErrRefused
}

// inputError is what a call fails with because a question has no answer. Err is what
// a legacy server would have been told; it must not be taken for the server's.
func inputError(question string, err error) error {
	wire, ok := errors.AsType[*mcp.Error](err)
	if !ok {
		return &InputError{Question: question, Reason: asks.Brief(err.Error()), Refused: true}
	}
	return &InputError{Question: question, Reason: asks.Brief(wire.Message), Refused: wire.Code == mcp.CodeUserRejected}
}

// ErrMessageTooLong is what a [MessageTooLongError] is.
var ErrMessageTooLong = errors.New("mcpclient: a message of the server is too long")

// MessageTooLongError says that the server has sent a message with more than Max bytes,
// which was skipped. The connection goes on. The request that the message answers was
// carried out.
type MessageTooLongError struct {
	Server string
	Max    int // in bytes
	// Certain says that the message is known to be the answer to this request. If not, it
	// may have been that of another one, and the outcome of this one is not known.
	Certain bool
}

func (e *MessageTooLongError) Error() string {
	perhaps := ""
	if !e.Certain {
		perhaps = ", which is perhaps this answer,"
	}
	return fmt.Sprintf("a message of server %q%s has more than %d bytes and was skipped; to take larger ones, set maxMessageBytes of the server", e.Server, perhaps, e.Max)
}

// Is reports that the error is [ErrMessageTooLong].
func (e *MessageTooLongError) Is(target error) bool { return target == ErrMessageTooLong }

// TimeoutError ends a call at one of its limits.
type TimeoutError struct {
	Method string
	After  time.Duration // the limit
	Idle   bool          // the limit is that without progress, not that of the whole call
	Unsent bool          // the call never left, for lack of a connection
	Err    error         // the same in words
}

func (e *TimeoutError) Error() string { return e.Err.Error() }

// Unwrap returns the details.
func (e *TimeoutError) Unwrap() error { return e.Err }

// Timeout implements the method of net.Error.
func (e *TimeoutError) Timeout() bool { return true }

// LostError ends a call whose connection went away before the answer. Whether the server has
// carried out the request is not known, unless Unsent is set.
type LostError struct {
	Method string
	Unsent bool  // it never left this process
	Err    error // the same in words
}

func (e *LostError) Error() string { return e.Err.Error() }

// Unwrap returns the details.
func (e *LostError) Unwrap() error { return e.Err }

// public returns the error of a call as a type of this package.
func public(err error) error {
	switch e := err.(type) {
	case *call.TimeoutError:
		return &TimeoutError{Method: e.Method, After: e.After, Idle: e.Idle, Unsent: e.Unsent, Err: e}
	case *call.LostError:
		return &LostError{Method: e.Method, Unsent: e.Unsent, Err: e}
	}
	return err
}

// ErrAuthRequired is what an [AuthRequiredError] is.
var ErrAuthRequired = errors.New("mcpclient: the server wants authorization")

// AuthRequiredError says that a server does not let us in: HTTP status 401 or 403.
type AuthRequiredError struct {
	Status    int
	Challenge string // its WWW-Authenticate header, fit to be shown
	// Challenges are the values of that header as they came, at most 16 of together 8 KiB.
	// They are the server's text: not to be shown, or to be believed.
	Challenges []string
	Err        error // what it says beside that
}

func (e *AuthRequiredError) Error() string {
	text := "the server wants authorization"
	if e.Status == http.StatusForbidden {
		text = "the server refuses access"
	}
	if e.Challenge != "" {
		text += " (" + e.Challenge + ")"
	}
	return fmt.Sprintf("%s: %v", text, e.Err)
}

// Is reports that the error is [ErrAuthRequired].
func (e *AuthRequiredError) Is(target error) bool { return target == ErrAuthRequired }

// Unwrap returns what the server says.
func (e *AuthRequiredError) Unwrap() error { return e.Err }

func denied(status int, challenges []string, shown string, err error) error {
	return &AuthRequiredError{Status: status, Challenge: shown, Challenges: challenges, Err: err}
}
