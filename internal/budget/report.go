package budget

// Report is the state of an account.
type Report struct {
	Name     string `json:"name"`
	Limits   Limits `json:"limits,omitzero"`
	Spent    Amount `json:"spent,omitzero"`    // by the account and all below it, at any time
	Reserved Amount `json:"reserved,omitzero"` // and not settled yet
	// Over is by how much Spent is beyond the limits. It is no more than Short.
	Over Amount `json:"over,omitzero"`
	// Short is by how much calls have cost more than was reserved for them, all
	// together: the errors of their estimates.
	Short Amount `json:"short,omitzero"`
	// Children are the accounts below that are not closed.
	Children []Report `json:"children,omitempty"`
}

// Report returns how the account and all below it stand at one moment.
func (a *Account) Report() Report {
	a.root.mu.Lock()
	defer a.root.mu.Unlock()
	return a.report()
}

func (a *Account) report() Report {
	r := Report{Name: a.name, Limits: a.limits, Spent: a.spent.amount(), Reserved: a.reserved.amount(),
		Short: a.short.amount(), Over: a.over().amount()}
	for _, c := range a.children {
		r.Children = append(r.Children, c.report())
	}
	return r
}

// over is the amount that was spent beyond the limits.
func (a *Account) over() vector {
	over := a.limits.vector()
	for i, limit := range over {
		if limit == 0 {
			continue
		}
		over[i] = max(0, a.spent[i]-max(limit, 0))
	}
	return over
}
