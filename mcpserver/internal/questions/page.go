package questions

import (
	"encoding/json"
	"strings"

	"github.com/google/uuid"

	"github.com/troupe-dev/troupe/internal/weburl"
	"github.com/troupe-dev/troupe/mcp"
)

// Page is a question by URL: a person is sent to a web page, for what must not pass
// through the client (URL-02).
type Page struct {
	Message string
	URL     string // with ElicitationID in it
	ID      string // empty until it is asked
	Consent bool   // the person's consent is the answer: the page is another server's
}

// ElicitationID stands for the id of the elicitation in a URL.
const ElicitationID = "{elicitationId}"

// prepare checks the page and returns the params that identify it.
func (p *Page) prepare() (any, error) {
	example := Page{URL: p.URL, ID: uuid.Nil.String()}
	if _, err := weburl.Check(example.Address()); err != nil {
		return nil, err
	}
	return &mcp.ElicitParams{Mode: mcp.ElicitURL, Message: p.Message, URL: p.URL}, nil
}

// Address is the URL with the id of the elicitation.
func (p *Page) Address() string {
	if p.Consent {
		return p.URL
	}
	return strings.ReplaceAll(p.URL, ElicitationID, p.ID)
}

// Params are those of elicitation/create, with the id where the revision has it.
func (p *Page) Params(id string) json.RawMessage {
	raw, err := mcp.Marshal(&mcp.ElicitParams{Mode: mcp.ElicitURL, Message: p.Message, URL: p.Address(), ElicitationID: id})
	if err != nil {
		return nil // it was encoded before, by Prepare
	}
	return raw
}

// Needed are questions by URL as clients get them that have to call again: in the error -32042,
// in input_required, and as a text.
func Needed(qs []*Question) (params []*mcp.ElicitParams, inputs mcp.InputRequests, text string) {
	inputs = make(mcp.InputRequests, len(qs))
	var lines []string
	for _, q := range qs {
		params = append(params, &mcp.ElicitParams{Message: q.Page.Message, URL: q.Page.Address(), ElicitationID: q.Page.ID})
		inputs[q.Key] = q.Input()
		lines = append(lines, q.Page.Message+" Open this page, then call again: "+q.Page.Address())
	}
	return params, inputs, strings.Join(lines, "\n")
}
