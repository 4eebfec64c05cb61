package mcp

import "encoding/json"

// SubscriptionFilter says which notices a listen stream carries.
type SubscriptionFilter struct {
	ToolsListChanged      bool     `json:"toolsListChanged,omitzero"`
	PromptsListChanged    bool     `json:"promptsListChanged,omitzero"`
	ResourcesListChanged  bool     `json:"resourcesListChanged,omitzero"`
	ResourceSubscriptions []string `json:"resourceSubscriptions,omitzero"`
	TaskIDs               []string `json:"taskIds,omitzero"` // Tasks extension

	Extra map[string]json.RawMessage `json:",inline,embed"`
}

// ListenParams are the params of subscriptions/listen and of
// notifications/subscriptions/acknowledged, where the filter is the accepted
// part.
type ListenParams struct {
	Notifications *SubscriptionFilter `json:"notifications"`
	Meta          Meta                `json:"_meta,omitzero"`
}

// Validate checks that notifications is there; it may be empty.
func (p *ListenParams) Validate() error {
	return required("listen params", "notifications", p.Notifications != nil)
}

// ListenResult ends a listen stream. Its Meta must hold the subscription id.
type ListenResult struct {
	Meta       Meta   `json:"_meta"`
	ResultType string `json:"resultType,omitzero"` // set by the encoder

	Extra map[string]json.RawMessage `json:",inline,embed"`
}

// Validate checks that the subscription id is there.
func (r *ListenResult) Validate() error {
	return required("listen result", "subscriptionId", !r.Meta.SubscriptionID().IsZero())
}
