package main

// Units of Grafana.
const (
	count   = "short"
	seconds = "s"
	rate    = "reqps"
	share   = "percentunit"
	size    = "bytes"
	plain   = "none"
)

// width is that of a row of panels.
const width = 24

// chosen is the Prometheus that is chosen above the panels.
func chosen() source { return source{Type: "prometheus", UID: "$datasource"} }

// newDashboard returns a dashboard of these rows.
func newDashboard(uid, title, description string, variables []variable, rows ...[]panel) dashboard {
	d := dashboard{
		UID: uid, Title: title, Description: description, Tags: []string{"capmcm"}, Editable: true, SchemaVersion: 39,
		Refresh: "1m", Time: span{From: "now-6h", To: "now"},
		Templating: templating{List: append([]variable{{
			Name: "datasource", Label: "Data source", Type: "datasource", Query: "prometheus",
		}}, variables...)},
	}
	y := 0
	for _, row := range rows {
		x, tallest := 0, 0
		for _, p := range row {
			p.ID, p.GridPos.X, p.GridPos.Y, p.GridPos.W = len(d.Panels)+1, x, y, width/len(row)
			x, tallest = x+p.GridPos.W, max(tallest, p.GridPos.H)
			d.Panels = append(d.Panels, p)
		}
		y += tallest
	}
	return d
}

// choice is a variable with the values of a label.
func choice(name, label, metric string) variable {
	return variable{
		Name: name, Label: label, Type: "query", Query: "label_values(" + metric + ", " + name + ")",
		Datasource: new(chosen()), Refresh: 2, Sort: 1, IncludeAll: true, Multi: true, AllValue: ".*",
	}
}

// line is one query of a panel; legend has labels in double braces.
type line struct{ expr, legend string }

// graph shows lines over time.
func graph(title, description, unit string, lines ...line) panel {
	p := newPanel("timeseries", title, description, unit, 8)
	for i, l := range lines {
		p.Targets = append(p.Targets, target{RefID: string(rune('A' + i)), Expr: l.expr, LegendFormat: l.legend})
	}
	p.FieldConfig.Defaults.Min = new(0)
	return p
}

// number shows one value of now, in red from a value on; 0 is never.
func number(title, description, expr string, red float64) panel {
	p := newPanel("stat", title, description, plain, 4)
	p.Targets = []target{{RefID: "A", Expr: expr, Instant: true}}
	p.FieldConfig.Defaults.NoValue = "0"
	steps := []step{{Color: "green"}}
	if red > 0 {
		steps = append(steps, step{Color: "red", Value: &red})
	}
	p.FieldConfig.Defaults.Thresholds = &thresholds{Mode: "absolute", Steps: steps}
	return p
}

// table shows the labels of series of now.
func table(title, description, expr string) panel {
	p := newPanel("table", title, description, "", 8)
	p.Targets = []target{{RefID: "A", Expr: expr, Instant: true, Format: "table"}}
	return p
}

func newPanel(kind, title, description, unit string, height int) panel {
	return panel{
		Type: kind, Title: title, Description: description, GridPos: position{H: height}, Datasource: chosen(),
		FieldConfig: fieldConfig{Defaults: defaults{Unit: unit}, Overrides: []struct{}{}},
	}
}

// quantiles are three of a histogram; by are labels, with commas.
func quantiles(metric, matchers, by, legend string) []line {
	var lines []line
	for _, q := range []string{"0.5", "0.9", "0.99"} {
		lines = append(lines, line{
			"histogram_quantile(" + q + ", sum by (" + by + ", le) (rate(" + metric + "_bucket" + matchers +
				"[$__rate_interval])))",
			legend + " " + q,
		})
	}
	return lines
}
