"""What is made of data: reports and exports of runs, tables of points, imports, plans of recipes."""
