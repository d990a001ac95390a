// Module dte06 computes the debit note (DTE-06).
package main

import "dtegate/plugins/sdk"

func init() { sdk.Register(description, sdk.Note) }

func main() {}
