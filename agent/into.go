package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/internal/schema"
)

// RunInto is [Agent.Run] with an answer that is a T: the model is held to T's schema, see
// [SchemaFor], in place of [Config].Output, and its answer decoded. The Result is what Run
// returns, and says what a run without an answer has cost.
func RunInto[T any](ctx context.Context, a *Agent, prompt string, opts *RunOptions) (T, *Result, error) {
	var none T
	o := *cmp.Or(opts, new(RunOptions))
	if len(o.Output) == 0 {
		var err error
		if o.Output, err = SchemaFor[T](); err != nil {
			return none, nil, err
		}
	}
	res, err := a.Run(ctx, prompt, &o)
	if err != nil {
		return none, res, err
	}
	answer, err := Into[T](res)
	return answer, res, err
}

// SchemaFor returns the JSON schema of a type, for [Config].Output and [Config].Input: its
// fields with the tags json and jsonschema (a description), as [Func] has them. A type
// without a schema, such as a function, is an error.
func SchemaFor[T any]() (json.RawMessage, error) {
	raw, err := schema.For(reflect.TypeFor[T]())
	if err != nil {
		return nil, fmt.Errorf("the schema of %s: %w", reflect.TypeFor[T](), err)
	}
	return raw, nil
}

// Into decodes the answer of a run, which has to be JSON, into a T. Ask for such an
// answer by [Config].Output or [RunOptions].Output.
func Into[T any](res *Result) (T, error) {
	var v T
	if res == nil {
		return v, errors.New("reading the answer: there is no result")
	}
	raw := []byte(res.Structured)
	if len(raw) == 0 {
		raw = []byte(unfence(res.Text))
	}
	if err := jsonx.Unmarshal(raw, &v); err != nil {
		return v, fmt.Errorf("reading the answer of run %q: %w", res.RunID, err)
	}
	return v, nil
}
