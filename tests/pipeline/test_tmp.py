import time, pytest
Y={
"default":"telemetry: {enabled: false}\n",
"consol":"""telemetry: {enabled: false}
event_log_storage:
  module: dagster._core.storage.event_log
  class: ConsolidatedSqliteEventLogStorage
  config: {base_dir: BASE}
""",
"mem":"""telemetry: {enabled: false}
event_log_storage:
  module: dagster._core.storage.event_log
  class: InMemoryEventLogStorage
run_storage:
  module: dagster._core.storage.runs
  class: InMemoryRunStorage
""",
}
@pytest.mark.parametrize("k", ["default","default", "consol","mem"])
def test_x(project, k):
    home = project.folder/".dagster"; home.mkdir()
    (home/"dagster.yaml").write_text(Y[k].replace("BASE", str(home/"ev")))
    project.write_pictures(range(8))
    project.write_recipe()
    for _ in range(3):
        t=time.time(); 
        r = project.run(); 
        print(k, time.time()-t, r.ok, r.error)
