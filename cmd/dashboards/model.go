package main

// The part of Grafana's model of dashboards that is used here, as Grafana spells it.

type dashboard struct {
	UID           string     `json:"uid"` // also the name of its file
	Title         string     `json:"title"`
	Description   string     `json:"description"`
	Tags          []string   `json:"tags"`
	Editable      bool       `json:"editable"`
	SchemaVersion int        `json:"schemaVersion"`
	Refresh       string     `json:"refresh"`
	Time          span       `json:"time"`
	Templating    templating `json:"templating"`
	Panels        []panel    `json:"panels"`
}

type span struct {
	From string `json:"from"`
	To   string `json:"to"`
}

type templating struct {
	List []variable `json:"list"`
}

// variable is chosen above the panels; queries have it with a dollar sign.
type variable struct {
	Name       string  `json:"name"`
	Label      string  `json:"label"`
	Type       string  `json:"type"`
	Query      string  `json:"query"`
	Datasource *source `json:"datasource,omitempty"`
	Refresh    int     `json:"refresh"` // 2: with the time range
	Sort       int     `json:"sort"`    // 1: by the alphabet
	IncludeAll bool    `json:"includeAll"`
	Multi      bool    `json:"multi"`
	AllValue   string  `json:"allValue,omitempty"`
}

type source struct {
	Type string `json:"type"`
	UID  string `json:"uid"`
}

type panel struct {
	ID          int         `json:"id"`
	Type        string      `json:"type"`
	Title       string      `json:"title"`
	Description string      `json:"description,omitempty"`
	GridPos     position    `json:"gridPos"`
	Datasource  source      `json:"datasource"`
	FieldConfig fieldConfig `json:"fieldConfig"`
	Targets     []target    `json:"targets"`
}

type position struct {
	X int `json:"x"`
	Y int `json:"y"`
	W int `json:"w"`
	H int `json:"h"`
}

type fieldConfig struct {
	Defaults defaults `json:"defaults"`
	// Grafana refuses a panel without the list.
	Overrides []struct{} `json:"overrides"`
}

type defaults struct {
	Unit       string      `json:"unit,omitempty"`
	Min        *int        `json:"min,omitempty"`
	NoValue    string      `json:"noValue,omitempty"`
	Thresholds *thresholds `json:"thresholds,omitempty"`
}

type thresholds struct {
	Mode  string `json:"mode"`
	Steps []step `json:"steps"`
}

// step is a colour from a value on; nil is from the lowest.
type step struct {
	Color string   `json:"color"`
	Value *float64 `json:"value"`
}

type target struct {
	RefID        string `json:"refId"`
	Expr         string `json:"expr"`
	LegendFormat string `json:"legendFormat,omitempty"`
	Instant      bool   `json:"instant,omitempty"`
	Format       string `json:"format,omitempty"`
}
