//go:build tools

// Package helm pins the Helm that the chart is checked with.
//
// It holds no code; scripts/helm builds the program.
package helm

import _ "helm.sh/helm/v3/cmd/helm"
