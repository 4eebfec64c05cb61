package mcpclient

import (
	"cmp"
	"context"
	"reflect"
	"time"

	"github.com/troupe-dev/troupe/internal/browser"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient/internal/asks"
)

// AskOptions says what servers may ask of the program, and who answers. The zero
// value lets them ask nothing: what is not set is not declared to them.
type AskOptions struct {
	// Human decides forms and URLs, and what of sampling is to be reviewed. Nil
	// declares no elicitation, even where calls have a Human of their own.
	Human Human
	// OnePerson says that one person answers for all calls, or people who may see each
	// other's questions, although their calls have Humans with different owners: the runs
	// of a program at a terminal are such calls. A question that may belong to a cancelled
	// call of another owner is then put to the Human of the call under way, with a note
	// that says so ([Ask.Notes]). Without it the question is declined.
	OnePerson bool
	// NoForms and NoURLs leave a mode of elicitation undeclared, although there is
	// a Human: for a person who cannot be shown one.
	NoForms, NoURLs bool
	// Sampler answers for a model. Nil declares no sampling, even where calls have a
	// Sampler of their own.
	Sampler Sampler
	// SampleFreely leaves out the review of sampling, before and after, for servers
	// whose Sampling does not say otherwise.
	SampleFreely bool
	// SamplingTools and SamplingContext declare what servers of 2025-11-25 and later
	// may ask the Sampler for beyond an answer: to call tools, and to be given context
	// of this or of all servers. Where context is not declared the wish for it is not
	// passed on.
	SamplingTools, SamplingContext bool
	// SampleTokens bounds the tokens that one server may ask for within an hour. Zero
	// means a million.
	SampleTokens int
	// Roots are the places that servers are told of. Nil declares none; an empty
	// list says that there are none now. See [Client.SetRoots].
	Roots []mcp.Root
	// RootsFunc takes the place of Roots and is asked each time a server asks. An error
	// that is an [*mcp.Error] is told to the server; of any other it hears only that the
	// roots are not known. Those that may not be exposed are left out. See
	// [Client.RootsChanged].
	RootsFunc func(ctx context.Context) ([]mcp.Root, error)
	// RootAvailable is asked before each time a root is exposed, with its path: one
	// that is not available is left out. Nil looks whether it is there. It may
	// block.
	RootAvailable func(path string) bool
	// OpenURL opens a page after the Human has agreed to it. It must not use a shell, nor
	// look at the page itself. After an error that is [ErrNoBrowser] the page counts as
	// open all the same: the person opens it by hand. After any other the server hears a
	// dismissal. Nil starts the system's browser.
	OpenURL func(ctx context.Context, url string) error
	// OnPageDone hears of the end of each page that the Human has agreed to: for one who
	// has passed it on to another person. It must not block.
	OnPageDone func(PageDone)
	// LoginCommand returns what makes the login at a server that is waited for, such as
	// "troupe mcp login notion", and where, to be shown. Scopes are what a person has to agree
	// to; nil is what the server wants. Nil shows none.
	LoginCommand func(server string, scopes []string) (command, where string)
	// AskExpiry is how long a question waits for the Human before it is declined by
	// itself. Zero means 10 min.
	AskExpiry time.Duration
	// AskLimit bounds the questions of a server to one Human that are open at once; four times as
	// many may wait for their turn, all others are declined at once. Zero means 8.
	AskLimit int
	// ElicitationExpiry is how long a page that was opened may take until the server
	// says that it is completed. Zero means an hour.
	ElicitationExpiry time.Duration
	// Serial lets calls to a legacy server go one at a time, as far as the server may
	// ask something because of them: it is then always known which call a question
	// belongs to. Without it those of one Human go at the same time, and may be asked
	// about together; calls of different ones go one after the other in any case where
	// the transport does not keep their questions apart. A call that waits for a page
	// to be completed (-32042) lets others go meanwhile.
	Serial bool
}

func (o AskOptions) withDefaults() AskOptions {
	if _, owned := o.Human.(Owned); o.Human != nil && !owned && !reflect.TypeOf(o.Human).Comparable() {
		o.Human = &boxed{o.Human}
	}
	if o.OpenURL == nil {
		o.OpenURL = browser.Open
	}
	if o.RootAvailable == nil {
		o.RootAvailable = asks.IsThere
	}
	o.SampleTokens = cmp.Or(o.SampleTokens, 1_000_000)
	o.AskExpiry = cmp.Or(o.AskExpiry, 10*time.Minute)
	o.AskLimit = cmp.Or(o.AskLimit, 8)
	o.ElicitationExpiry = cmp.Or(o.ElicitationExpiry, time.Hour)
	return o
}

// boxed makes a Human comparable, such as a function: the calls that have no other are
// then known to have the same.
type boxed struct{ Human }

// PageDone is the end of a page that a [Human] has agreed to.
type PageDone struct {
	Server string   // its name in the configuration
	Asks   []string // the IDs of the questions by which it was agreed to
	URL    URLView
	// Err is nil if the server has said that the page is completed, if a person has said
	// so by [Elicitation.Retry], or if the server, where it cannot say it, has answered
	// the call that the page was for. Else it says why the page is over: it has expired,
	// was given up, could not be opened, or the connection has ended.
	Err error
}
