// Module dte14 computes the excluded-subject invoice (DTE-14).
package main

import "dtegate/plugins/sdk"

func init() { sdk.Register(description, evaluate) }

func main() {}
